use super::*;
use crate::query::Expr;

fn parsed(text: &str) -> Expr {
    Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    Expr::parse(text).unwrap_err().to_string()
}

#[test]
fn fields_and_words_are_told_apart() {
    assert_eq!(parsed("tag = 'a'"), Expr::tag("a"));
    assert_eq!(parsed("\"tag\" = 'a'"), Expr::compare("tag", Comparison::Equal, "a"));
    assert_eq!(parsed("field:tag = 'a'"), Expr::compare("tag", Comparison::Equal, "a"));
    assert_eq!(parsed("has = 1"), Expr::compare("has", Comparison::Equal, 1));
    assert_eq!(parsed("has has"), Expr::has("has"));
    assert_eq!(parsed("HAS field:checkpoint"), Expr::has("checkpoint"));
    assert_eq!(parsed("missing \"seq\""), Expr::missing("seq"));
    assert_eq!(parsed("field:finished = true"), Expr::compare("finished", Comparison::Equal, true));
    assert_eq!(parsed("checkpoint and artifact"), Expr::checkpoint().and(Expr::artifact()));
    assert_eq!(parsed("artifact = 'summary'"), Expr::artifact_named("summary"));
    assert_eq!(parsed("not finished"), Expr::finished(false));
    assert_eq!(parsed("job = 'gpt@1'"), Expr::job("gpt@1"));
    assert_eq!(parsed("nonce != 'n'"), !Expr::nonce("n"));
    assert_eq!(parsed("name in ('a', 'b')"), Expr::name("a").or(Expr::name("b")));
    assert_eq!(parsed("project = 'p.*.r'"), Expr::project(Some("p"), None, Some("r")));
    assert_eq!(parsed("process=3"), Expr::process(3));
    let node = Node::new("a:b", "c", 7).unwrap();
    assert_eq!(parsed("node = 'a:b@c:7'"), Expr::node(&node));
    assert_eq!(parsed(&format!("node = '{}'", node.address())), Expr::node(&node));
}

#[test]
fn times_bound_the_records() {
    let second = 1_000_000_000;
    assert_eq!(
        parsed("written >= '1970-01-01T00:00:01Z' and written < 2000000000").term,
        Term::All(vec![
            Term::Record(RecordTerm::Written { from: Some(second), until: None }),
            Term::Record(RecordTerm::Written { from: None, until: Some(2 * second) }),
        ])
    );
    assert_eq!(parsed("written <= 5").term, Term::Record(RecordTerm::Written { from: None, until: Some(6) }));
    assert!(error("written = 5").starts_with("at character 9: expected `<`"));
    for beyond in ["9999-12-31T23:59:59Z", "1066-10-14"] {
        let range = "a time from 1677-09-22 to 2262-04-11";
        assert!(error(&format!("written > '{beyond}'")).contains(range), "{beyond}");
    }
    assert!(error("written > 'noon'").starts_with("at character 11: expected a time"));
}

#[test]
fn and_binds_more_than_or_and_not_most() {
    let a = || Expr::has("a");
    let b = || Expr::has("b");
    let c = || Expr::has("c");
    assert_eq!(parsed("has a or has b and has c"), a().or(b().and(c())));
    assert_eq!(parsed("(has a or has b) and has c"), a().or(b()).and(c()));
    assert_eq!(parsed("not has a and has b"), (!a()).and(b()));
    assert_eq!(parsed("not (has a and has b)"), !(a().and(b())));
    assert_eq!(parsed("not not has a"), !!a());
    assert_eq!(parsed("has a AND has b AND has c"), a().and(b()).and(c()));
}

#[test]
fn identity_case_08_names_of_quotes_and_sql_are_exact() {
    let key = "a \"b\" `c` \\ \u{4e2d}\u{6587}; drop table nodes";
    let value = "it's \u{1f980} \\ \"x\" -- ";
    let text = format!("\"{}\" = '{}'", key.replace('"', "\"\""), value.replace('\'', "''"));
    assert_eq!(parsed(&text), Expr::compare(key, Comparison::Equal, value));
    assert_eq!(
        parsed("\u{4e2d}/`x`\\y >= -1.5e-3"),
        Expr::compare("\u{4e2d}/`x`\\y", Comparison::GreaterOrEqual, -1.5e-3)
    );
}

#[test]
fn values_keep_their_type() {
    let value = |text: &str| match parsed(&format!("k = {text}")).term {
        Term::Field(FieldTerm::Compare { value, .. }) => value,
        term => panic!("{term:?}"),
    };
    assert_eq!(value("3"), Scalar::Int(3));
    assert_eq!(value("-9223372036854775808"), Scalar::Int(i64::MIN));
    assert_eq!(value("3.0"), Scalar::Float(3.0));
    assert_eq!(value("1e3"), Scalar::Float(1000.0));
    assert_eq!(value("-inf"), Scalar::Float(f64::NEG_INFINITY));
    assert!(value("NaN").same(&Scalar::Float(f64::NAN)));
    assert_eq!(value("99999999999999999999"), Scalar::Float(1e20));
    assert_eq!(value("True"), Scalar::Bool(true));
    assert_eq!(value("''"), Scalar::Text(String::new()));
    assert_eq!(parsed("k in (1, 'a',2.5)"), Expr::any_of("k", [Scalar::Int(1), "a".into(), 2.5.into()]));
}

#[test]
fn bad_input_names_the_place() {
    assert_eq!(error(""), format!("at character 1: expected {TERM}, found the end"));
    assert_eq!(error("val/loss"), format!("at character 9: expected {OPERATOR}, found the end"));
    assert_eq!(error("val/loss <"), format!("at character 11: expected {VALUE}, found the end"));
    assert_eq!(error("val/loss << 2"), format!("at character 10: expected {OPERATOR}, found `<`"));
    assert_eq!(error("a < 2 b"), format!("at character 7: expected {END}, found `b`"));
    assert_eq!(error("a < 2 and"), format!("at character 10: expected {TERM}, found the end"));
    assert_eq!(error("(a < 2"), "at character 7: expected `)`, found the end");
    assert_eq!(error("a < 2)"), format!("at character 6: expected {END}, found `)`"));
    assert_eq!(error("name = x"), format!("at character 8: expected {TEXT}, found `x`"));
    assert_eq!(error("name < 'x'"), format!("at character 6: expected {EQUALITY}, found `<`"));
    assert_eq!(error("a = 'x"), "at character 5: expected a closing quote, found `'x`");
    assert_eq!(error("\u{4e2d} = \u{4e2d}"), format!("at character 5: expected {VALUE}, found `\u{4e2d}`"));
    assert_eq!(error("a in 3"), "at character 6: expected `(`, found `3`");
    assert_eq!(error("a in (3,)"), format!("at character 9: expected {VALUE}, found `)`"));
    assert_eq!(error("seq = 1.5"), format!("at character 7: expected {WHOLE}, found `1.5`"));
    assert_eq!(error("has a or or"), format!("at character 10: expected {TERM}, found `or`"));
    assert_eq!(error("node = 'zz'"), format!("at character 8: expected {NODE}, found `'zz'`"));
    assert_eq!(error("name = \"a b\""), format!("at character 8: expected {TEXT}, found `\"a b\"`"));
    assert_eq!(error("a like 'x%'"), format!("at character 3: expected {OPERATOR}, found `like`"));
    let deep = "(".repeat(5000);
    assert!(error(&deep).contains("less than 100 levels"), "{}", error(&deep));
    assert!(error(&"not ".repeat(5000)).contains("less than 100 levels"));
    let place = Expr::parse("a < 2 b").unwrap_err();
    assert_eq!((place.position, place.text.as_str()), (6, "a < 2 b"));
}

#[test]
fn words_of_the_language_are_no_fields_by_accident() {
    for (text, column, expected) in [
        ("finished = true", 10, ALONE),
        ("checkpoint = 3", 12, ALONE),
        ("missing seq", 9, PLAIN_KEY),
        ("has checkpoint", 5, PLAIN_KEY),
        ("x = 1 and not has written", 19, PLAIN_KEY),
    ] {
        let error = Expr::parse(text).unwrap_err();
        assert_eq!((error.column(), error.expected.as_str()), (column, expected), "{text}");
    }
}
