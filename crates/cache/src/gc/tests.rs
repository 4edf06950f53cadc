use std::sync::Arc;

use waycairn_durable::Digest;

use super::*;
use crate::history::Used;
use crate::{Key, Pin};

const DAY: i64 = 24 * 3600 * 1_000_000_000;
const NOW: i64 = 100 * DAY;

fn entry(product: &str, number: u8) -> EntryName {
    EntryName::new(product, &Key::from_digest(Digest::of(&[number]))).unwrap()
}

fn listed(kind: Kind, modified: i64) -> Listed {
    let name = match &kind {
        Kind::Entry(entry) | Kind::Bare(entry) => entry.folder(),
        Kind::Temporary => ".tmp-1-x".to_owned(),
        Kind::Aside => ".damaged-x".to_owned(),
        Kind::Foreign => "notes.txt".to_owned(),
    };
    Listed { product: Arc::from("p"), name: name.into(), kind, modified, bytes: 10, files: 2 }
}

fn listing(listed: Vec<Listed>) -> Listing {
    Listing { present: true, products: vec![Arc::from("p")], listed }
}

fn used(digest: &[u8], group: &'static str, entries: &[EntryName]) -> Used<'static> {
    Used {
        digest: Digest::of(digest),
        label: "l",
        group,
        entries: entries.iter().cloned().collect(),
        now: NOW,
    }
}

/// A history that was read: one that names these, and whose expired entries are those.
fn history(names: &[EntryName], expired: &[EntryName]) -> History {
    let mut history = History::new();
    history.record(used(b"one", "training", &[names, expired].concat()));
    history.record(used(b"one", "training", names));
    history
}

fn pins(names: &[EntryName]) -> Pins {
    let mut pins = Pins::new();
    for name in names {
        let pin = Pin { dependencies: BTreeSet::new(), reason: "r".to_owned(), time: String::new() };
        pins.insert(name.clone(), pin);
    }
    pins
}

/// All combinations of what can be true of an entry, against the sentence of the invariant.
#[test]
fn cache_5_the_verdict_over_all_that_can_be_true_of_an_entry() {
    let (it, other) = (entry("p", 1), entry("p", 2));
    let choose = |on: bool| if on { vec![it.clone()] } else { Vec::new() };
    for bits in 0..64_u32 {
        let on = |bit: u32| bits & 1 << bit != 0;
        let (is_used, is_expired, is_pinned, is_held, is_old, doubted) =
            (on(0), on(1), on(2), on(3), on(4), on(5));
        let history = history(&[choose(is_used), vec![other.clone()]].concat(), &choose(is_expired));
        let listing =
            listing(vec![listed(Kind::Entry(it.clone()), if is_old { NOW - DAY } else { NOW - DAY + 1 })]);
        let held = choose(is_held).into_iter().collect();
        let doubt = doubted.then_some("a folder is missing");
        let pins = pins(&choose(is_pinned));
        let policy = GcPolicy::default();
        let input = GcInput {
            listing: &listing,
            history: &history,
            pins: &pins,
            held: &held,
            now: NOW,
            policy,
            doubt,
        };
        let plan = GcPlan::compute(input);
        let stays = is_used || is_pinned || is_held || doubted || (!is_old && !is_expired);
        assert_eq!(plan.removals().next().is_none(), stays, "{bits:b} {plan:?}");
        if is_used {
            assert_eq!(plan.decisions[0].verdict, Verdict::Keep(Keep::Used));
        } else if !stays {
            let reason = if is_expired { Remove::Expired } else { Remove::Unknown };
            assert_eq!(plan.decisions[0].verdict, Verdict::Remove(reason));
        }
        assert_eq!(plan.missing, std::slice::from_ref(&other));
    }
}

fn plan(listing: &Listing, history: &History, now: i64) -> GcPlan {
    let (pins, held) = (Pins::new(), BTreeSet::new());
    GcPlan::compute(GcInput {
        listing,
        history,
        pins: &pins,
        held: &held,
        now,
        policy: GcPolicy::default(),
        doubt: None,
    })
}

#[test]
fn cache_5_litter_goes_when_it_is_a_day_old_and_what_is_not_ours_never() {
    let history = history(&[], &[]);
    for kind in [Kind::Bare(entry("p", 1)), Kind::Temporary, Kind::Aside, Kind::Foreign] {
        let verdict = |age: i64, now: i64| {
            plan(&listing(vec![listed(kind.clone(), now - age)]), &history, now).decisions[0].verdict
        };
        let foreign = kind == Kind::Foreign;
        let keep = if foreign { Keep::Foreign } else { Keep::Young };
        assert_eq!(verdict(DAY - 1, NOW), Verdict::Keep(keep));
        let gone = if foreign { Verdict::Keep(Keep::Foreign) } else { Verdict::Remove(Remove::Litter) };
        assert_eq!(verdict(DAY, NOW), gone);
        // A clock that was set back, or is of another machine, makes things young.
        assert_eq!(verdict(-1, NOW), Verdict::Keep(keep));
        assert_eq!(verdict(-50 * DAY, NOW), Verdict::Keep(keep));
    }
    // No time is too far away.
    for (modified, now) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
        let _ = plan(&listing(vec![listed(Kind::Temporary, modified)]), &history, now);
    }
}

#[test]
fn cache_5_missing_folders_make_it_remove_nothing_and_are_said() {
    let old = listed(Kind::Entry(entry("p", 1)), 0);
    let mut history = history(&[entry("p", 1), entry("gone", 2)], &[]);
    let there = listing(vec![old.clone(), listed(Kind::Temporary, 0)]);
    let told = plan(&there, &history, NOW);
    assert_eq!(told.doubts, ["the folder `cache/gone` is missing, and recent launches used it"]);
    assert_eq!(told.decisions[1].verdict, Verdict::Keep(Keep::Doubt));
    assert_eq!(told.tally().1, Tally::default());
    history.record(used(b"one", "training", &[entry("p", 1)]));
    let told = plan(&there, &history, NOW);
    assert!(told.doubts.is_empty());
    assert_eq!(
        told.tally(),
        (Tally { entries: 1, files: 2, bytes: 10 }, Tally { entries: 1, files: 2, bytes: 10 })
    );
    let told = plan(&Listing::default(), &history, NOW);
    assert_eq!(told.doubts, ["the folder `cache` is missing"]);
    assert_eq!(told.missing, [entry("p", 1)]);
}

#[test]
fn what_a_pin_needs_is_kept_with_it() {
    let mut pins = Pins::new();
    let dependencies = BTreeSet::from([entry("p", 2)]);
    pins.insert(entry("p", 1), Pin { dependencies, reason: String::new(), time: String::new() });
    let there = listing((1..=3).map(|number| listed(Kind::Entry(entry("p", number)), 0)).collect());
    let (history, held) = (history(&[], &[]), BTreeSet::new());
    let policy = GcPolicy::default();
    let input = GcInput {
        listing: &there,
        history: &history,
        pins: &pins,
        held: &held,
        now: NOW,
        policy,
        doubt: None,
    };
    let kept: Vec<bool> =
        GcPlan::compute(input).decisions.iter().map(|d| d.verdict == Verdict::Keep(Keep::Pinned)).collect();
    assert_eq!(kept, [true, true, false]);
}

#[test]
fn cache_5_what_was_built_from_others_goes_before_them() {
    use crate::{Cache, CacheError, Implementation, Recipe};
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    let build = |recipe: &Recipe| {
        let built = cache.get_or_build(recipe, (), |builder, ()| builder.json("x", &1)).unwrap();
        (built.artifact.entry().clone(), *built.artifact.key())
    };
    let recipe = |product: &str| Recipe::new(product, "test", &1, Implementation::new(1)).unwrap();
    let (first, key) = build(&recipe("m"));
    let (second, key) = build(&recipe("z").with_dependency("m", key));
    let (third, _) = build(&recipe("a").with_dependency("z", key));
    let (alone, _) = build(&recipe("b"));
    // One whose manifest says nothing goes like one that was built from nothing.
    waycairn_durable::write_file(
        &alone.path(root.path()).join("artifact.json"),
        b"{}",
        waycairn_durable::Durability::Regenerable,
    )
    .unwrap();
    let all = [&first, &second, &third, &alone].map(Clone::clone);
    let history = history(&[], &all);
    let plan = plan(&cache.listing().unwrap(), &history, NOW);
    assert_eq!(plan.removals().count(), 4);
    let generations = plan.generations(&cache);
    assert_eq!([&first, &second, &third, &alone].map(|entry| generations[entry]), [2, 1, 0, 0]);
    let lease = FileLock::try_acquire(&root.path().join("locks/lease.lock")).unwrap();
    let report = plan.execute(&cache, &lease);
    assert!(report.errors.is_empty() && report.removed.entries == 4, "{report:?}");
    assert!(matches!(cache.artifact(&first), Err(CacheError::Gone { .. })));
}
