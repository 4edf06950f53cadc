//! Nodes by the nonce of their run, or its beginning.

use super::kit::{Root, record};
use crate::resolve::ResolveError;

fn root() -> Root {
    Root::of(&[
        record("r", 0, 1, &[]).nonce("abcd0011"),
        record("r", 4, 2, &[]).nonce("abcd0011"),
        record("r", 4, 3, &[]).nonce("abce0022"),
        record("r", 0, 5, &[]).nonce("949e"),
        record("r", 0, 6, &[]).nonce("949e88"),
        record("s", 0, 4, &[]).nonce("abcd0033"),
        record("a:7@b", 2, 7, &[]).nonce("abcd0044"),
        record("r@abcd", 1, 8, &[]).nonce("0123456789"),
    ])
}

#[test]
fn a_unique_beginning_of_a_nonce_is_enough() {
    let root = root();
    let reader = root.reader();
    let found = |text: &str| reader.resolve(text).unwrap().to_string();
    assert_eq!(found("r@abcd0011"), "r@abcd0011:4");
    assert_eq!(found("r@abcd0:0"), "r@abcd0011:0");
    assert_eq!(found("r@abce"), "r@abce0022:4");
    assert_eq!(found("r@abce:4"), "r@abce0022:4");
    assert_eq!(found("s@abcd"), "s@abcd0033:0");
    assert_eq!(found("a:7@b@abcd:2"), "a:7@b@abcd0044:2");
    assert_eq!(found("a:7@b@abcd"), "a:7@b@abcd0044:2");
    // A whole nonce is that nonce, though another begins so.
    assert_eq!(found("r@949e"), "r@949e:0");
    assert_eq!(found("r@949e:0"), "r@949e:0");
    // A run of that very name goes before an abbreviation.
    assert_eq!(found("r@abcd"), "r@abcd@0123456789:1");
    assert_eq!(found("r@abcd:1"), "r@abcd@0123456789:1");
}

#[test]
fn several_nonces_with_one_beginning_are_told_apart_by_their_candidates() {
    let root = Root::of(&[
        record("r", 4, 1, &[]).nonce("abcd01"),
        record("r", 7, 2, &[]).nonce("abcd02"),
        record("r", 9, 3, &[]).nonce("abc"),
    ]);
    let reader = root.reader();
    let refused = |text: &str| match reader.resolve(text).unwrap_err() {
        ResolveError::AmbiguousNonce { count, candidates, .. } => {
            (count, candidates.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        error => panic!("{error}"),
    };
    assert_eq!(refused("r@abcd"), (2, vec!["r@abcd02:7".to_owned(), "r@abcd01:4".to_owned()]));
    assert_eq!(refused("r@abcd:4").1, ["r@abcd02:7", "r@abcd01:4"]);
    let text = reader.resolve("r@abcd").unwrap_err().to_string();
    assert!(text.contains("beginning of 2 nonces") && text.contains("`r@abcd01:4`"), "{text}");
    // Exact although short; too short for a beginning; unknown.
    assert_eq!(reader.resolve("r@abc").unwrap().to_string(), "r@abc:9");
    let nearest = |text: &str| match reader.resolve(text).unwrap_err() {
        ResolveError::Unknown { nearest, .. } => nearest,
        error => panic!("{error}"),
    };
    for text in ["r@ab", "r@ab:4"] {
        let error = reader.resolve(text).unwrap_err();
        assert_eq!(error.suggestions(), ["r@abc", "r@abcd02", "r@abcd01"]);
        assert!(
            matches!(error, ResolveError::ShortNonce { .. }) && error.to_string().contains("less than 4")
        );
    }
    assert_eq!(nearest("r@zz"), ["r@abc", "r@abcd02", "r@abcd01"]);
    assert_eq!(nearest("r@abc:5"), ["r@abc:9"]);
    assert_eq!(nearest("r@zzzz:4"), ["r@abc", "r@abcd02", "r@abcd01"]);
    assert_eq!(nearest("r@abcd01:5"), ["r@abcd01:4"]);
}
