//! A writer on a file system without locks: it says that it lives by the times of its files.

use waycairn_durable::time;

use super::*;
use crate::tiers::plan_compaction;

const ENOLCK: i32 = 37;

/// The files that say that writers live.
fn said(root: &TempDir) -> Vec<PathBuf> {
    let values = values_folder(root.path());
    let names = testkit::strays(root.path());
    names.iter().filter(|name| is_writer_name(name)).map(|name| values.join(name)).collect()
}

fn age(path: &Path) -> Duration {
    let now = time::to_system(time::now_nanos());
    now.duration_since(fs::metadata(path).unwrap().modified().unwrap()).unwrap_or_default()
}

fn make_old(path: &Path) {
    let before = time::to_system(time::now_nanos()) - Duration::from_secs(300);
    fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
}

#[test]
fn where_there_are_no_locks_the_journal_says_that_its_writer_lives_and_others_leave_it_alone() {
    let root = TempDir::new().unwrap();
    let _no_locks = refuse("lock", root.path(), ENOLCK, u64::MAX);
    let options = StoreOptions { batch_deadline: Duration::from_secs(3_600), ..quick() };
    let store = ObjectStore::open(root.path(), options).unwrap();
    record(&store, 0);
    store.flush().unwrap();
    record(&store, 1);
    until(|| store.queue().unjournaled() == 0);
    let left_alone = || {
        let report = recover(root.path()).unwrap();
        assert_eq!((report.live, report.segments, report.records), (1, 0, 0));
        assert_eq!(plan_compaction(root.path()).unwrap().live, 1, "its part is its own");
    };
    left_alone();
    let files: Vec<PathBuf> = segments(&root).into_iter().chain(said(&root)).collect();
    assert_eq!(files.len(), 2);
    files.iter().for_each(|path| make_old(path));
    // Nothing is recorded meanwhile: the thread beats by itself.
    until(|| files.iter().all(|path| age(path) < Duration::from_secs(60)));
    left_alone();
    assert_eq!(seen(&store, Freshness::Live), [0, 1]);

    store.journal().die();
    std::mem::forget(store);
    files.iter().for_each(|path| make_old(path));
    assert_eq!(plan_compaction(root.path()).unwrap().live, 0);
    let report = recover(root.path()).unwrap();
    assert_eq!((report.live, report.segments, report.records), (0, 1, 1));
    assert_eq!(crate::ObjectReader::open(root.path()).unwrap().query().count().unwrap().value, 2);
}
