use super::*;
use crate::schema::Value;

fn rules(last: Option<u64>, every: Option<u64>, best: Option<&str>) -> Retention {
    let best = best.map(|text| Best::of(&Value::Text(text.to_owned())).unwrap());
    Retention { last, every, best, earliest: false }
}

/// Checkpoints at these positions, each with step = seq + 1.
fn at(metrics: &[(u64, Option<f64>)]) -> Vec<Candidate> {
    metrics.iter().map(|&(seq, metric)| Candidate { seq, step: seq + 1, metric }).collect()
}

#[test]
fn nothing_goes_when_no_rule_is_set() {
    let candidates = at(&[(9, None), (19, Some(1.0))]);
    assert!(rules(None, None, None).excess(&candidates).is_empty());
    assert!(rules(None, None, None).is_off());
}

#[test]
fn each_rule_keeps_what_it_says_and_the_newest_always_stays() {
    let nan = Some(f64::NAN);
    let candidates = at(&[
        (9, Some(3.0)),
        (19, Some(1.0)),
        (29, Some(2.0)),
        (39, nan),
        (49, Some(1.0)),
        (59, None),
        (69, Some(9.0)),
    ]);
    let excess = |last, every, best| rules(last, every, best).excess(&candidates);
    assert_eq!(excess(Some(1), None, None), [9, 19, 29, 39, 49, 59]);
    assert_eq!(excess(Some(3), None, None), [9, 19, 29, 39]);
    assert!(excess(Some(7), None, None).is_empty());
    assert_eq!(excess(None, Some(20), None), [9, 29, 49]);
    assert_eq!(excess(None, Some(1000), None), [9, 19, 29, 39, 49, 59], "the newest is what a resume needs");
    // Of 1.0 and 1.0 the later is the better one; what is no number is never the best.
    assert_eq!(excess(None, None, Some("1 val/loss min")), [9, 19, 29, 39, 59]);
    assert_eq!(excess(None, None, Some("2 val/loss min")), [9, 29, 39, 59]);
    assert_eq!(excess(None, None, Some("2 val/loss max")), [19, 29, 39, 49, 59]);
    assert_eq!(excess(None, None, Some("99 val/loss max")), [39, 59]);
    // Rules add up.
    assert_eq!(excess(Some(2), Some(30), Some("1 val/loss min")), [9, 19, 39]);
    // The order of the list does not matter, and applying a rule again changes nothing.
    let mut reversed = candidates.clone();
    reversed.reverse();
    let rule = rules(Some(2), Some(30), Some("1 val/loss min"));
    assert_eq!(rule.excess(&reversed), rule.excess(&candidates));
    reversed.retain(|one| ![9, 19, 39].contains(&one.seq));
    assert!(rule.excess(&reversed).is_empty());
}

#[test]
fn a_rule_for_the_best_has_one_way_to_be_written() {
    let normal = |value: Value| Best::normal(&value);
    let text = |text: &str| normal(Value::Text(text.to_owned()));
    assert_eq!(text("3 val/loss min"), Some(Value::Integer(3)));
    assert_eq!(normal(Value::Integer(3)), Some(Value::Integer(3)));
    assert_eq!(text("  3  eval/accuracy\tmax "), Some(Value::Text("3 eval/accuracy max".to_owned())));
    assert_eq!(text("2 a key with blanks min"), Some(Value::Text("2 a key with blanks min".to_owned())));
    for bad in
        ["", "3", "0 val/loss min", "x val/loss min", "3 val/loss", "3 min", "3 val/loss lowest", "-1 a min"]
    {
        assert_eq!(text(bad), None, "{bad:?}");
    }
    assert_eq!(normal(Value::Integer(0)), None);
}
