use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;
use crate::node::tests::{names, nodes, nonces};

fn parse_text(text: &str) -> Result<Address, AddressError> {
    text.parse()
}

fn address_of(plain: &[u8]) -> Result<Address, AddressError> {
    parse_text(&URL_SAFE_NO_PAD.encode(plain))
}

#[test]
fn dag_3_the_vectors_of_the_format() {
    let vectors = [
        (0, "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MA"),
        (1, "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MQ"),
    ];
    for (seq, text) in vectors {
        let node = Node::new("general.default.train-gpt", "949e88", seq).unwrap();
        assert_eq!(node.address().as_str(), text);
        let decoded = parse_text(text).unwrap().decode();
        assert_eq!(decoded, node);
        assert_eq!(decoded.parent(), None);
    }
}

#[test]
fn padding_is_tolerated_and_taken_away() {
    let plain = "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MA";
    for padding in ["=", "=="] {
        assert_eq!(parse_text(&format!("{plain}{padding}")).unwrap().as_str(), plain);
    }
    // The longest address, padded.
    let longest = Node::new(&"n".repeat(153), "0123456789abcdef", Node::MAX_SEQ).unwrap().address();
    let padded =
        base64::engine::general_purpose::URL_SAFE.encode(URL_SAFE_NO_PAD.decode(longest.as_str()).unwrap());
    assert_eq!(parse_text(&padded).unwrap(), longest);
}

#[test]
fn dag_3_a_name_may_hold_the_separator() {
    let node = Node::new("a:b::c", "949e88", 12).unwrap();
    let again = node.address().decode();
    assert_eq!((again.name(), again.nonce(), again.seq()), ("a:b::c", "949e88", 12));
}

#[test]
fn malformed_text_is_refused_with_what_is_wrong() {
    let say = |text: &str| parse_text(text).unwrap_err().to_string();
    assert_eq!(say(""), "an address must not be empty");
    assert_eq!(
        say("Z2Vu+g"),
        "`Z2Vu+g` is no address: '+' at byte 4 is outside of the URL-safe base64 alphabet (A-Z, a-z, 0-9, `-`, `_`)"
    );
    assert!(matches!(
        parse_text("run:949e88:1"),
        Err(AddressError::Character { character: ':', position: 3, .. })
    ));
    assert!(matches!(
        parse_text("cnVu=Og"),
        Err(AddressError::Character { character: '=', position: 4, .. })
    ));
    assert!(matches!(parse_text("\u{4e2d}"), Err(AddressError::Character { character: '\u{4e2d}', .. })));
    // One character too few, and stray bits in the last one: the second text would be a second address of a node.
    assert!(matches!(parse_text("cnVuOmFiOjA9Z"), Err(AddressError::Truncated { .. })));
    assert!(matches!(parse_text("cnVuOmFiOjB"), Err(AddressError::Truncated { .. })));
    assert!(matches!(parse_text("===="), Err(AddressError::Truncated { .. } | AddressError::Parts { .. })));
    assert!(matches!(address_of(b"\xff\xfe:ab:0"), Err(AddressError::NotUtf8 { .. })));
    assert_eq!(
        address_of(b"run:1").unwrap_err().to_string(),
        "`cnVuOjE` is no address: it holds `run:1` where `name:nonce:seq` is needed"
    );
    let text = "A".repeat(300);
    assert_eq!(say(&text), "a text of 300 bytes is no address: an address has at most 255");
}

#[test]
fn only_canonical_positions_are_read() {
    for seq in [
        "",
        "01",
        "00",
        "+1",
        "-1",
        " 1",
        "1 ",
        "0x1",
        "9223372036854775808",
        "99999999999999999999",
        "\u{0661}",
    ] {
        let error = address_of(format!("run:ab:{seq}").as_bytes()).unwrap_err();
        assert!(matches!(error, AddressError::Seq { .. }), "{seq:?}: {error}");
    }
    assert_eq!(address_of(b"run:ab:9223372036854775807").unwrap().decode().seq(), Node::MAX_SEQ);
}

#[test]
fn an_address_of_an_impossible_node_is_refused() {
    assert_eq!(address_of(b":ab:0"), Err(AddressError::EmptyName));
    assert!(matches!(address_of(b"run::0"), Err(AddressError::EmptyNonce { .. })));
    assert!(matches!(address_of(b"a\x07b:ab:0"), Err(AddressError::ControlCharacter { part: "name", .. })));
    // Short enough at this position, too long at the last one.
    let plain = format!("{}:0123456789abcdef:0", "n".repeat(155));
    assert!(matches!(address_of(plain.as_bytes()), Err(AddressError::TooLong { .. })));
}

#[test]
fn serde_is_the_text() {
    let address = Node::new("run", "ab", 0).unwrap().address();
    assert_eq!(serde_json::to_string(&address).unwrap(), r#""cnVuOmFiOjA""#);
    assert_eq!(serde_json::from_str::<Address>(r#""cnVuOmFiOjA=""#).unwrap(), address);
    assert!(serde_json::from_str::<Address>(r#""cnVu""#).is_err());
    assert_eq!(format!("{address:>13}|"), "  cnVuOmFiOjA|");
}

proptest! {
    #[test]
    fn dag_3_round_trips_for_every_name(name in names(), nonce in nonces(), seq in 0..=Node::MAX_SEQ) {
        let node = Node::new(&name, &nonce, seq).unwrap();
        let address = node.address();
        let again = address.decode();
        prop_assert_eq!((again.name(), again.nonce(), again.seq()), (name.as_str(), nonce.as_str(), seq));
        prop_assert_eq!(parse_text(address.as_str()).unwrap(), address);
    }

    #[test]
    fn dag_3_different_nodes_have_different_addresses(one in nodes(), other in nodes()) {
        prop_assert_eq!(one == other, one.address() == other.address());
    }

    #[test]
    fn dag_4_an_address_is_a_file_name_of_at_most_255_bytes(node in nodes()) {
        let last = node.at(Node::MAX_SEQ).unwrap().address();
        prop_assert!(last.as_str().len() <= 255);
        prop_assert!(last.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    }

    #[test]
    fn any_text_is_an_address_or_an_error(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse_text(&text);
        if let Ok(address) = address_of(&bytes) {
            prop_assert_eq!(address.decode().address(), address);
        }
    }
}
