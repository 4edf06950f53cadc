use std::fs;

use super::*;
use crate::Key;

fn entry(number: u8) -> EntryName {
    EntryName::new("p", &Key::from_digest(Digest::of(&[number]))).unwrap()
}

fn used(digest: u8, group: &'static str, numbers: &[u8]) -> Used<'static> {
    let entries = numbers.iter().map(|&number| entry(number)).collect();
    Used {
        digest: Digest::of(&[digest]),
        label: "smoke",
        group,
        entries,
        now: i64::from(digest) * 1_000_000_000,
    }
}

fn names(numbers: &[u8]) -> BTreeSet<EntryName> {
    numbers.iter().map(|&number| entry(number)).collect()
}

#[test]
fn cache_5_the_last_three_distinct_roots_are_kept() {
    let mut history = History::new();
    for root in 1..=4 {
        history.record(used(root, "training", &[0, root]));
    }
    let digests: Vec<Digest> = history.roots().iter().map(|root| root.digest).collect();
    assert_eq!(digests, [4, 3, 2].map(|root| Digest::of(&[root])));
    assert_eq!(*history.expired(), names(&[1]));
    // Going back makes no new root, and what is used again is not expired.
    history.record(used(2, "training", &[0, 2]));
    assert_eq!(history.roots().len(), 3);
    assert_eq!(history.roots()[0].digest, Digest::of(&[2]));
    history.record(used(1, "training", &[0, 1]));
    assert_eq!(*history.expired(), names(&[3]));
}

#[test]
fn cache_case_04_the_same_root_again_is_one_entry_and_keeps_its_other_groups() {
    let mut history = History::new();
    history.record(used(1, "training", &[1]));
    history.record(used(1, "analysis", &[1, 2]));
    history.record(used(1, "training", &[1]));
    history.record(used(1, "analysis", &[1, 2]));
    assert_eq!(history.roots().len(), 1);
    assert_eq!(history.used().cloned().collect::<BTreeSet<_>>(), names(&[1, 2]));
    assert!(history.expired().is_empty());
    // The latest analysis replaces the one before.
    history.record(used(1, "analysis", &[1, 3]));
    assert_eq!(*history.expired(), names(&[2]));
}

#[test]
fn a_history_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    let mut history = cache.history(0).unwrap();
    assert_eq!((history.state(), history.doubt()), (&BookState::Absent, None));
    for root in 1..=4 {
        history.record(used(root, "training", &[0, root]));
    }
    history.set_extra("source", Value::from("x"));
    cache.save_history(&history).unwrap();
    let read = cache.history(0).unwrap();
    assert_eq!(read.state(), &BookState::Read);
    assert_eq!((read.roots(), read.expired()), (history.roots(), history.expired()));
    assert_eq!(read.roots()[0].extra["source"], "x");
    let text = fs::read_to_string(root.path().join("history.json")).unwrap();
    assert!(
        text.starts_with("{\n  \"expired\": [\n    \"p/") && text.ends_with("  \"version\": 1\n}\n"),
        "{text}"
    );
}

#[test]
fn a_newer_history_is_refused_and_stays() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    write_file(&root.path().join("history.json"), b"{\"version\": 2}", Durability::State).unwrap();
    let error = cache.history(0).unwrap_err().to_string();
    assert!(
        error.ends_with("has version 2, and this program reads 1; upgrade it to use this root"),
        "{error}"
    );
}
