#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn key(settings: &str) -> RunKey {
    RunKey {
        model_key: None,
        name: "run".to_owned(),
        base: NO_BASE.to_owned(),
        settings_sha256: Digest::of(settings.as_bytes()),
    }
}

fn known(nonce: &str, settings: Option<&str>, checkpoints: &[u64], finished: bool) -> Known {
    Known {
        nonce: nonce.to_owned(),
        key: settings.map(key),
        last: 9,
        checkpoints: checkpoints.to_vec(),
        finished,
    }
}

/// Every combination of what one recorded run can be, against each wish.
#[test]
fn every_state_of_one_recorded_run_has_its_answer() {
    for equal in [true, false] {
        for finished in [true, false] {
            for checkpoints in [&[][..], &[3], &[3, 7]] {
                let run = known("n", Some(if equal { "a" } else { "b" }), checkpoints, finished);
                let runs = [run];
                let same = decide(&Wish::Same, &key("a"), &runs).unwrap();
                let nonce = || "n".to_owned();
                let expected = match (equal, finished, checkpoints.last()) {
                    (false, _, _) => Plan::New(Reason::OtherSettings),
                    (true, true, _) => Plan::Skip { nonce: nonce(), seq: 9 },
                    (true, false, Some(newest)) => Plan::Continue { nonce: nonce(), seq: *newest },
                    (true, false, None) => Plan::Again { nonce: nonce() },
                };
                assert_eq!(same, expected);
                assert_eq!(decide(&Wish::Fresh, &key("a"), &runs), Ok(Plan::New(Reason::Asked)));
                for seq in [2, 3, 5, 7, 9] {
                    let wish = Wish::Resume { nonce: nonce(), seq };
                    let resumed = decide(&wish, &key("a"), &runs);
                    let expected = match checkpoints.last() {
                        _ if finished => Err(Refusal::Finished),
                        None => Err(Refusal::NoCheckpoint),
                        Some(newest) if seq < *newest => Err(Refusal::NotNewest { newest: *newest }),
                        Some(_) if !equal => Err(Refusal::OtherSettings),
                        Some(newest) => Ok(Plan::Continue { nonce: nonce(), seq: *newest }),
                    };
                    assert_eq!(resumed, expected, "{finished} {checkpoints:?} {seq}");
                }
            }
        }
    }
}

#[test]
fn the_newest_of_several_equal_runs_is_meant() {
    let runs = [
        known("c", Some("b"), &[1], false),
        known("b", Some("a"), &[], false),
        known("a", Some("a"), &[5], true),
    ];
    assert_eq!(decide(&Wish::Same, &key("a"), &runs), Ok(Plan::Again { nonce: "b".to_owned() }));
    assert_eq!(decide(&Wish::Same, &key("a"), &[]), Ok(Plan::New(Reason::First)));
}

#[test]
fn a_run_of_another_maker_is_not_continued() {
    let runs = [known("n", None, &[1], false)];
    assert_eq!(decide(&Wish::Same, &key("a"), &runs), Ok(Plan::New(Reason::OtherSettings)));
    let wish = |nonce: &str| Wish::Resume { nonce: nonce.to_owned(), seq: 1 };
    assert_eq!(decide(&wish("n"), &key("a"), &runs), Err(Refusal::Foreign));
    assert_eq!(decide(&wish("m"), &key("a"), &runs), Err(Refusal::Unknown));
}

#[test]
fn keys_that_differ_have_different_locks() {
    let mut other = key("a");
    other.base = "abc".to_owned();
    assert_ne!(key("a").digest(), key("b").digest());
    assert_ne!(key("a").digest(), other.digest());
    assert_eq!(key("a").digest(), key("a").digest());
}

#[test]
fn a_quoted_text_survives_a_shell() {
    assert_eq!(quote("shakespeare@0c11f2:999"), "shakespeare@0c11f2:999");
    assert_eq!(quote("a b"), "'a b'");
    assert_eq!(quote("it's"), "'it'\\''s'");
    assert_eq!(quote(""), "''");
}
