use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Names of every script, with the separator, quotes and what else a name may hold.
pub(crate) fn names() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        4 => any::<char>(),
        2 => prop::char::ranges(vec!['a'..='z', '0'..='9'].into()),
        1 => prop::sample::select(vec![':', '@', '/', '.', '\'', '"', '`', '\\', ' ', '\u{0301}', '\u{4e2d}', '\u{1f332}']),
    ];
    prop::collection::vec(characters, 1..38)
        .prop_map(|text| text.into_iter().filter(|character| !character.is_control()).collect())
        .prop_filter("not empty", |text: &String| !text.is_empty())
}

pub(crate) fn nonces() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u8; 8]>().prop_map(|bytes| Nonce::from_random(bytes).to_string()),
        "[0-9a-f]{1,6}",
        "[A-Za-z_.@/-]{1,12}",
    ]
}

pub(crate) fn nodes() -> impl Strategy<Value = Node> {
    let seqs = prop_oneof![0..3_u64, 0..=Node::MAX_SEQ, Just(Node::MAX_SEQ)];
    (names(), nonces(), seqs).prop_map(|(name, nonce, seq)| Node::new(&name, &nonce, seq).unwrap())
}

fn hash(node: &Node) -> u64 {
    use std::hash::DefaultHasher;
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn dag_2_a_parent_changes_neither_equality_nor_order_nor_hash() {
    let plain = Node::new("run", "949e88", 3).unwrap();
    let other = Node::new("base", "0c11f2", 9).unwrap();
    let given = plain.clone().with_parent(Some(other.address()));
    let derived = plain.at(2).unwrap().next().unwrap();
    for (one, two) in [(&plain, &given), (&plain, &derived), (&given, &derived)] {
        assert_eq!(one, two);
        assert_eq!(one.cmp(two), Ordering::Equal);
        assert_eq!(hash(one), hash(two));
    }
    assert_eq!(HashSet::from([plain, given, derived]).len(), 1);
}

#[test]
fn dag_2_order_is_name_then_nonce_then_position_as_a_number() {
    let node = |name, nonce, seq| Node::new(name, nonce, seq).unwrap();
    let sorted = [node("a", "1", 9), node("a", "1", 10), node("a", "2", 0), node("b", "0", 0)];
    assert!(sorted.is_sorted());
    // The text of the addresses would sort 10 before 9.
    assert!(sorted[1].address() < sorted[0].address());
}

#[test]
fn dag_1_next_keeps_the_run_and_makes_this_node_the_parent() {
    let node = Node::new("general.default.train-gpt", "949e88", 0).unwrap();
    let next = node.next().unwrap();
    assert_eq!(next.to_string(), "general.default.train-gpt@949e88:1");
    assert_eq!(next.parent().unwrap().as_str(), "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MA");
    assert!(Arc::ptr_eq(node.name_arc(), next.name_arc()));
    assert!(Arc::ptr_eq(node.nonce_arc(), next.nonce_arc()));
}

#[test]
fn a_branch_begins_at_zero_with_the_base_as_its_parent() {
    let base = Node::new("shakespeare", "949e88", 999).unwrap();
    let nonce = Nonce::from_random([1; 8]);
    let branch = base.branch("warmer", &nonce).unwrap();
    assert_eq!(branch.to_string(), "warmer@0101010101010101:0");
    assert_eq!(branch.parent(), Some(&base.address()));
    assert_eq!(branch.nonce(), nonce.as_str());
    let same_name = base.branch("shakespeare", &nonce).unwrap();
    assert!(!same_name.same_run(&base));
    let error = same_name.branch("shakespeare", &nonce).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a branch of `shakespeare@0101010101010101:0` needs a nonce or a name of its own"
    );
    assert_eq!(base.branch("", &nonce), Err(AddressError::EmptyName));
}

#[test]
fn at_gives_another_position_without_a_parent() {
    let node = Node::new("run", "949e88", 3).unwrap().next().unwrap();
    let other = node.at(7).unwrap();
    assert!(other.same_run(&node));
    assert_eq!((other.seq(), other.parent()), (7, None));
    assert_eq!(node.at(u64::MAX), Err(AddressError::SeqTooLarge { seq: u64::MAX }));
}

#[test]
fn positions_end_at_the_largest_signed_integer() {
    let last = Node::new("run", "949e88", Node::MAX_SEQ).unwrap();
    assert_eq!(last.seq(), 9_223_372_036_854_775_807);
    let error = last.next().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`run@949e88:9223372036854775807` is the last possible position of its run; go on in a branch"
    );
    let error = Node::new("run", "949e88", Node::MAX_SEQ + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "position 9223372036854775808 is above the largest possible one, 9223372036854775807"
    );
}

#[test]
fn dag_4_a_name_of_154_bytes_fits_beside_a_new_nonce_and_no_more() {
    let nonce = "0123456789abcdef";
    let longest = Node::new(&"n".repeat(154), nonce, Node::MAX_SEQ).unwrap();
    assert_eq!(longest.address().as_str().len(), Node::MAX_ADDRESS_BYTES);
    let error = Node::new(&"n".repeat(155), nonce, 0).unwrap_err();
    assert!(matches!(error, AddressError::TooLong { bytes: 155, limit: 154, nonce_bytes: 16, .. }));
    assert!(
        error.to_string().ends_with(
            "has 155 bytes of UTF-8, 154 are possible beside a nonce of 16; choose a shorter name"
        )
    );
    // Bytes count, not characters; and a nonce may be too long by itself.
    assert!(Node::new(&"\u{4e2d}".repeat(52), nonce, 0).is_err());
    assert!(Node::new("n", &"9".repeat(200), 0).is_err());
}

#[test]
fn what_no_node_may_be_called_is_refused_with_the_place() {
    let new = |name, nonce| Node::new(name, nonce, 0).unwrap_err();
    assert_eq!(new("", "949e88").to_string(), "a name must not be empty");
    assert_eq!(new("run", "").to_string(), "the nonce of `run` is empty; a new one has 16 hex digits");
    assert_eq!(
        new("a\nb", "949e88").to_string(),
        "the name `a\\nb` holds the control character U+000A at byte 1; leave it out"
    );
    assert!(matches!(
        new("run", "94\u{85}9e"),
        AddressError::ControlCharacter { part: "nonce", character: '\u{85}', position: 2, .. }
    ));
    assert_eq!(
        new("run", "a:b").to_string(),
        "the nonce `a:b` holds `:`, which separates the parts of an address; leave it out"
    );
}

#[test]
fn serde_shows_all_four_fields_and_validates() {
    let node = Node::new("run", "949e88", 3).unwrap();
    assert_eq!(
        serde_json::to_string(&node).unwrap(),
        r#"{"name":"run","nonce":"949e88","seq":3,"parent":null}"#
    );
    let next = node.next().unwrap();
    let text = serde_json::to_string(&next).unwrap();
    let again: Node = serde_json::from_str(&text).unwrap();
    assert_eq!((&again, again.parent()), (&next, Some(&node.address())));
    assert!(serde_json::from_str::<Node>(r#"{"name":"run","nonce":"a:b","seq":3}"#).is_err());
    assert!(serde_json::from_str::<Node>(r#"{"name":"run","nonce":"ab","seq":3,"parent":"x"}"#).is_err());
    assert!(serde_json::from_str::<Node>(r#"{"name":"run","nonce":"ab","seq":-3}"#).is_err());
}

#[test]
fn debug_shows_the_parent_and_display_the_identity() {
    let node = Node::new("run", "ab", 0).unwrap().next().unwrap();
    assert_eq!(node.to_string(), "run@ab:1");
    assert_eq!(
        format!("{node:?}"),
        r#"Node { name: "run", nonce: "ab", seq: 1, parent: Some("cnVuOmFiOjA") }"#
    );
}

proptest! {
    #[test]
    fn dag_2_order_agrees_with_the_tuple(one in nodes(), other in nodes()) {
        let tuple = |node: &Node| (node.name().to_owned(), node.nonce().to_owned(), node.seq());
        prop_assert_eq!(one.cmp(&other), tuple(&one).cmp(&tuple(&other)));
        prop_assert_eq!(one == other, tuple(&one) == tuple(&other));
    }

    #[test]
    fn serde_round_trips(node in nodes(), parent in proptest::option::of(nodes())) {
        let node = node.with_parent(parent.map(|parent| parent.address()));
        let again: Node = serde_json::from_str(&serde_json::to_string(&node).unwrap()).unwrap();
        prop_assert_eq!(again.parent(), node.parent());
        prop_assert_eq!(again, node);
    }

    #[test]
    fn next_and_decode_agree(node in nodes()) {
        if let Ok(next) = node.next() {
            prop_assert_eq!(next.parent().unwrap().decode(), node);
        }
    }
}
