use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Implementation, to_value};

fn text_of(value: &Value) -> Result<String, ValueError> {
    canonical_text(value).map(|text| String::from_utf8(text).unwrap())
}

fn canonical(text: &str) -> String {
    text_of(&serde_json::from_str(text).unwrap()).unwrap()
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991..=9_007_199_254_740_991_i64).prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |value| value.is_finite().then(|| Value::from(value))),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cache_1_the_text_is_that_of_serde_jcs(value in values()) {
        prop_assert_eq!(text_of(&value).unwrap(), serde_jcs::to_string(&value).unwrap());
    }

    #[test]
    fn cache_1_the_text_of_a_recipe_is_that_of_serde_jcs(
        settings in values(),
        texts: [String; 5],
        crates: BTreeMap<String, String>,
        sources: BTreeMap<String, [u8; 32]>,
        backend: Option<(u32, bool)>,
    ) {
        let [product, experiment, device, name, precision] = texts;
        let sources = sources.into_iter().map(|(name, bytes)| (name, Digest::from_bytes(bytes)));
        let sources: BTreeMap<String, Digest> = sources.collect();
        let dependencies = sources.iter().map(|(name, digest)| (name.clone(), Key(*digest))).collect();
        let implementation = Implementation { version: 7, sources, crates };
        let backend = backend
            .map(|(world_size, deterministic)| Backend { device, name, world_size, precision, deterministic });
        let recipe = Recipe { product, experiment, settings, dependencies, implementation, backend };
        let text = String::from_utf8(recipe_text(&recipe).unwrap()).unwrap();
        prop_assert_eq!(text, serde_jcs::to_string(&to_value(&recipe).unwrap()).unwrap());
    }
}

#[test]
fn cache_1_what_has_no_canonical_text_has_no_key() {
    let refused = |text: &str| text_of(&serde_json::from_str(text).unwrap()).unwrap_err();
    assert_eq!(refused(r#"{"a": [1, {"b.c": 9007199254740992}]}"#).path, "a[1].\"b.c\"");
    assert_eq!(refused("-9007199254740992").problem, refused("-9007199254740992").problem);
    assert!(refused("18446744073709551615").problem.starts_with("is the integer 18446744073709551615, and"));
    assert!(refused(&format!("{}1{}", "[".repeat(110), "]".repeat(110))).problem.contains("deeper"));
    assert_eq!(canonical("[9007199254740991, -9007199254740991]"), "[9007199254740991,-9007199254740991]");
}

/// RFC 8785, sections 3.2.2 and 3.2.3: input and sorted output.
#[test]
fn cache_1_the_example_of_the_rfc() {
    let input = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                    \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(canonical(input), expected);
}

/// Section 3.2.3: keys sort by UTF-16 code units, so a pair of surrogates comes before U+FB33.
#[test]
fn cache_1_keys_sort_as_the_rfc_says() {
    let input = r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#;
    let expected =
        "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
    assert_eq!(canonical(input), expected);
}

/// Appendix B: the bits of a double and its text.
#[test]
fn cache_1_the_numbers_of_the_rfc() {
    let vectors: [(u64, &str); 24] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for (bits, expected) in vectors {
        assert_eq!(text_of(&to_value(&f64::from_bits(bits)).unwrap()).unwrap(), expected, "{bits:x}");
    }
    for bits in [0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000] {
        assert!(to_value(&f64::from_bits(bits)).is_err());
    }
}

#[test]
fn cache_1_equal_values_have_one_text() {
    assert_eq!(canonical("[1, 1.0, 1e0, 10e-1, -0]"), "[1,1,1,1,0]");
    assert_eq!(canonical(r#"{"b": {"y": 1, "x": 2}, "a": []}"#), r#"{"a":[],"b":{"x":2,"y":1}}"#);
}

#[test]
fn keys_are_shown_and_read_as_hex() {
    let key = Key(Digest::of(b"null"));
    assert_eq!(key.to_string(), "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(serde_json::to_string(&key).unwrap(), format!("\"{key}\""));
    assert_eq!(key.short(), "74234e98afe7");
    assert!("74".parse::<Key>().is_err());
}
