//! One entry: built, found, read, damaged.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kit::{Numbers, build, get, names, recipe, tree};
use waycairn_cache::{
    Bf16, BookState, Builder, Cache, CacheError, Damage, Dtype, How, Implementation, Lookup, MissReason,
    Recipe,
};

fn cache() -> (tempfile::TempDir, Cache) {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    (root, cache)
}

/// The whole error: what, and all causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

#[test]
fn cache_case_01_a_builder_that_fails_leaves_nothing() {
    let (root, cache) = cache();
    type Fail = fn(&Builder<'_>, ()) -> Result<(), Box<dyn std::error::Error>>;
    let failing: [(Fail, &str); 9] = [
        (
            |builder, ()| {
                builder.array::<f32>("x", &[10])?.values()[0] = 1.0;
                Err("the data is bad".into())
            },
            "the data is bad",
        ),
        // A builder that never finishes.
        (|_, ()| Ok(()), "it made no file and said nothing"),
        (
            |builder, ()| {
                drop(builder.rows::<f32>("x", &[2])?);
                Ok(())
            },
            "the array `x.npy` is not finished",
        ),
        (
            |builder, ()| builder.file("weights.safetensors").map(|_| ()).map_err(Into::into),
            "was named and not written",
        ),
        (
            |builder, ()| {
                let path = builder.file("named")?;
                fs::write(&path, b"x")?;
                fs::write(path.with_file_name("stray"), b"x")?;
                Ok(())
            },
            "`stray` is there and was not named",
        ),
        (
            |builder, ()| {
                fs::create_dir(builder.file("folder")?)?;
                Ok(())
            },
            "`folder` is not a file",
        ),
        (
            |builder, ()| {
                builder.array::<u8>("x", &[1])?;
                builder.rows::<u8>("x", &[1])?.finish()?;
                Ok(())
            },
            "made `x.npy` twice",
        ),
        (
            |builder, ()| {
                let mut rows = builder.rows::<u8>("x", &[2])?;
                rows.push(&[1, 2, 3])?;
                Ok(())
            },
            "3 values were added to `x`, whose rows have 2",
        ),
        (|builder, ()| builder.json("x", &f64::NAN).map_err(Into::into), "the value is NaN"),
    ];
    for (build, expected) in failing {
        let error = cache.get_or_build(&recipe(1), (), build).unwrap_err();
        assert!(chain(&*error).contains(expected), "{expected}: {error}");
        assert_eq!(names(root.path()), Vec::<String>::new(), "{expected}");
        assert!(matches!(cache.get(&recipe(1)).unwrap(), Lookup::Miss(MissReason::Absent)));
    }
    // One that panics is no exception.
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        cache.get_or_build(&recipe(1), (), |_, ()| -> Result<(), CacheError> { panic!("oh") })
    }));
    assert!(panicked.is_err());
    assert_eq!(names(root.path()), Vec::<String>::new());
    assert!(matches!(get(&cache, 1).unwrap().how, How::Built { reason: MissReason::Absent, .. }));
}

#[test]
fn cache_case_02_what_was_written_comes_back_and_damage_is_found() {
    let (root, cache) = cache();
    let built = get(&cache, 3).unwrap();
    for artifact in [built.artifact, get(&Cache::open(root.path()).unwrap(), 3).unwrap().artifact] {
        let values = artifact.array::<f64>("values").unwrap();
        assert_eq!(values.shape(), [8, 4]);
        assert_eq!(values.values().len(), 32);
        assert_eq!(values.row(7).unwrap(), [3028.0, 3029.0, 3030.0, 3031.0]);
        assert_eq!(values.row(8), None);
        assert_eq!(artifact.array::<u32>("streamed").unwrap().rows(1..3).unwrap(), [1, 1, 2, 4]);
        assert_eq!(artifact.json::<Numbers>("about").unwrap(), Numbers { seed: 3, rows: 8 });
        assert_eq!(fs::read(artifact.file("weights.safetensors").unwrap()).unwrap(), [7; 100]);
        assert_eq!(artifact.metadata()["seed"], 3);
        assert_eq!(artifact.recipe(), &recipe(3));
        assert_eq!((artifact.product(), *artifact.key()), ("numbers", recipe(3).key().unwrap()));
        assert_eq!(artifact.files()["values.npy"].shape.as_deref(), Some(&[8, 4][..]));
        assert_eq!(artifact.bytes(), artifact.files().values().map(|member| member.bytes).sum::<u64>());
        let error = artifact.array::<f32>("values").unwrap_err().to_string();
        assert!(error.contains("holds f64, and f32 was asked for"), "{error}");
        let error = artifact.array::<f32>("other").unwrap_err().to_string();
        assert!(error.contains("has no member `other.npy`; it has `about.json`, `streamed.npy`"), "{error}");
        assert!(matches!(artifact.json::<u8>("about"), Err(CacheError::Decode { .. })));
    }
    let told = std::sync::Mutex::new(Vec::new());
    let report = cache.verify(|checking| told.lock().unwrap().push(checking)).unwrap();
    assert!(report.failures.is_empty());
    let told = told.into_inner().unwrap();
    let artifact = cache.artifact(&recipe(3).entry().unwrap()).unwrap();
    let (files, bytes) = (artifact.files().len() as u64, artifact.bytes());
    assert!(told.iter().all(|checking| (checking.of_files, checking.of_bytes) == (files, bytes)));
    assert!(told.iter().any(|checking| checking.files == 0 && checking.bytes > 0), "before a file is done");
    assert!(told.iter().any(|checking| checking.files == files), "{told:?}");
    assert_eq!(told.iter().map(|checking| checking.bytes).max(), Some(bytes));

    // The last byte of a file: the fast check does not see it, the deep one does.
    let path = cache.artifact(&recipe(3).entry().unwrap()).unwrap().file("values.npy").unwrap();
    flip_last_byte(&path);
    assert_eq!(get(&cache, 3).unwrap().how, How::Hit);
    let report = cache.verify(|_| ()).unwrap();
    assert_eq!(report.failures.len(), 1);
    assert_eq!(
        (report.failures[0].file.as_str(), report.failures[0].key),
        ("values.npy", Some(recipe(3).key().unwrap()))
    );
    assert!(matches!(report.failures[0].damage, Damage::Digest { .. }));

    // A file that is gone: damaged at once, and never built again in silence.
    fs::remove_file(&path).unwrap();
    let error = get(&cache, 3).unwrap_err().to_string();
    assert!(error.contains("is damaged: its file `values.npy` is missing"), "{error}");
    assert!(error.contains(&recipe(3).entry().unwrap().to_string()), "{error}");
    let report = cache.verify(|_| ()).unwrap();
    let damaged: Vec<_> = report.damaged().into_iter().cloned().collect();
    assert_eq!(damaged, [recipe(3).entry().unwrap()]);
    let aside = cache.quarantine(&damaged[0]).unwrap();
    assert!(aside.join("about.json").exists());
    assert!(matches!(get(&cache, 3).unwrap().how, How::Built { .. }));
    assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
}

fn flip_last_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&bytes).unwrap();
}

#[test]
fn cache_4_every_changed_byte_of_an_entry_is_found_and_all_are_reported() {
    let (_root, cache) = cache();
    let artifact = get(&cache, 1).unwrap().artifact;
    let folder = artifact.path().to_owned();
    let mut tried = 0;
    for name in ["artifact.json", "values.npy", "about.json", "weights.safetensors"] {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            let report = cache.verify(|_| ()).unwrap();
            // White space between the words of the manifest may change and say the same.
            let harmless = name == "artifact.json" && {
                let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
                read(&whole) == read(&bytes)
            };
            assert_ne!(report.failures.is_empty(), !harmless, "{name} at {at}");
            tried += 1;
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(tried > 1000);
    // Several at once are all said.
    for name in ["values.npy", "about.json", "weights.safetensors"] {
        flip_last_byte(&folder.join(name));
    }
    fs::write(folder.join("extra"), b"x").unwrap();
    let report = cache.verify(|_| ()).unwrap();
    let files: Vec<&str> = report.failures.iter().map(|failure| failure.file.as_str()).collect();
    assert_eq!(files, ["about.json", "extra", "values.npy", "weights.safetensors"]);
    assert_eq!((report.entries, report.files), (1, 5));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["failures"][1]["damage"]["kind"], "unlisted");
}

#[test]
fn cache_4_what_is_short_long_empty_or_garbled_is_named() {
    let (_root, cache) = cache();
    let artifact = get(&cache, 1).unwrap().artifact;
    let folder = artifact.path().to_owned();
    let whole = fs::read(folder.join("artifact.json")).unwrap();
    let said = |expected: &str| {
        for error in [cache.get(&recipe(1)).unwrap_err(), get(&cache, 1).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("--quarantine"), "{expected}: {text}");
        }
    };
    let cases: [(&[u8], &str); 4] = [
        (b"", "it is empty"),
        (&[0; 512], "`artifact.json` is no manifest"),
        (&whole[..90], "EOF"),
        (b"{}", "missing field"),
    ];
    for (bytes, expected) in cases {
        fs::write(folder.join("artifact.json"), bytes).unwrap();
        said(expected);
    }
    let newer = String::from_utf8(whole.clone()).unwrap().replace("\"schema\": 1", "\"schema\": 9");
    fs::write(folder.join("artifact.json"), newer).unwrap();
    let error = cache.get(&recipe(1)).unwrap_err().to_string();
    assert!(
        error.ends_with("has schema 9, and this program reads 1; upgrade it, or use another root"),
        "{error}"
    );
    fs::write(folder.join("artifact.json"), &whole).unwrap();

    let values = fs::read(folder.join("values.npy")).unwrap();
    fs::write(folder.join("values.npy"), &values[..values.len() - 1]).unwrap();
    said("its file `values.npy` has 383 bytes where the manifest says 384");
    fs::write(folder.join("values.npy"), [&values[..], b"x"].concat()).unwrap();
    said("has 385 bytes");
    fs::remove_file(folder.join("values.npy")).unwrap();
    fs::create_dir(folder.join("values.npy")).unwrap();
    said("is not a file");
    fs::remove_dir(folder.join("values.npy")).unwrap();

    // A header that contradicts the manifest is found when the array is opened.
    let mut bytes = values.clone();
    let at = bytes.windows(5).position(|window| window == b"False").unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    fs::write(folder.join("values.npy"), &bytes).unwrap();
    let error = cache.artifact(artifact.entry()).unwrap().array::<f64>("values").unwrap_err().to_string();
    assert!(error.contains("it is in Fortran order, and only row-major arrays are read"), "{error}");
}

#[test]
fn cache_case_03_litter_never_counts_and_is_no_damage() {
    let (root, cache) = cache();
    let entry = recipe(1).entry().unwrap();
    let folder = root.path().join("cache").join(entry.to_string());
    for half_deleted in [false, true] {
        if half_deleted {
            get(&cache, 1).unwrap();
            fs::remove_file(folder.join("artifact.json")).unwrap();
        } else {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("values.npy"), b"half").unwrap();
        }
        assert!(matches!(cache.get(&recipe(1)).unwrap(), Lookup::Miss(MissReason::Litter)));
        let report = cache.verify(|_| ()).unwrap();
        assert!(
            report.failures.is_empty() && report.litter.contains(&Path::new("cache").join(entry.to_string()))
        );
        assert!(matches!(get(&cache, 1).unwrap().how, How::Built { reason: MissReason::Litter, .. }));
        assert_eq!(get(&cache, 1).unwrap().how, How::Hit);
        fs::remove_dir_all(&folder).unwrap();
    }
    assert_eq!(names(root.path()).len(), 2, "what was in the way is kept for a day");
    assert!(names(root.path()).iter().all(|name| name.starts_with(".litter-")));
    // A file has the name.
    fs::write(&folder, b"x").unwrap();
    assert!(matches!(get(&cache, 1).unwrap().how, How::Built { reason: MissReason::Litter, .. }));
}

#[test]
fn cache_case_04_the_same_again_is_a_hit_and_changes_nothing() {
    let (root, cache) = cache();
    let keys: Vec<_> = (0..5).map(|seed| *get(&cache, seed).unwrap().artifact.key()).collect();
    let before = tree(root.path());
    for seed in 0..5 {
        let built = get(&cache, seed).unwrap();
        assert_eq!((built.how, *built.artifact.key()), (How::Hit, keys[seed as usize]));
    }
    assert_eq!(tree(root.path()), before);
}

#[test]
fn cache_3_a_hit_works_where_nothing_can_be_written_and_makes_nothing() {
    let (root, cache) = cache();
    let absent = root.path().join("absent");
    let reader = Cache::open(&absent).unwrap();
    assert!(matches!(reader.get(&recipe(1)).unwrap(), Lookup::Miss(MissReason::Absent)));
    assert!(reader.verify(|_| ()).unwrap().failures.is_empty());
    assert!(reader.why(&recipe(1)).unwrap().nearest.is_none());
    assert!(reader.history(0).unwrap().roots().is_empty());
    assert!(!absent.exists());

    get(&cache, 1).unwrap();
    fs::remove_dir_all(root.path().join("locks")).unwrap();
    let entry = root.path().join("cache").join(recipe(1).entry().unwrap().to_string());
    let folders =
        [entry.clone(), root.path().join("cache/numbers"), root.path().join("cache"), root.path().to_owned()];
    let mode = |mode: u32| {
        for folder in &folders {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o555);
    let before = tree(root.path());
    let cache = Cache::open(root.path()).unwrap();
    assert_eq!(get(&cache, 1).unwrap().how, How::Hit);
    assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
    assert_eq!(tree(root.path()), before);
    // To the superuser everything can be written.
    if fs::write(root.path().join("probe"), b"").is_err() {
        assert!(matches!(get(&cache, 2), Err(CacheError::Format(_) | CacheError::Commit(_))));
    }
    mode(0o755);
}

/// Field case F12: what is mapped stays as it was.
#[test]
fn cache_3_a_held_entry_survives_its_removal_from_under_it_or_says_that_it_is_gone() {
    let (_root, cache) = cache();
    let artifact = get(&cache, 1).unwrap().artifact;
    let values = artifact.array::<f64>("values").unwrap();
    fs::remove_dir_all(artifact.path()).unwrap();
    assert_eq!(values.values()[1], 1001.0);
    assert!(matches!(artifact.array::<u32>("streamed"), Err(CacheError::Gone { .. })));
    assert!(matches!(artifact.json::<Numbers>("about"), Err(CacheError::Gone { .. })));
    assert!(matches!(cache.artifact(artifact.entry()), Err(CacheError::Gone { .. })));
}

#[test]
fn arrays_of_every_type_come_back_and_shapes_are_checked_before_memory() {
    let (_root, cache) = cache();
    fn all(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
        builder.array::<f32>("f32", &[2])?.values().copy_from_slice(&[0.5, f32::NAN]);
        builder.array::<i32>("i32", &[2])?.values().copy_from_slice(&[-1, 1]);
        builder.array::<i64>("i64", &[1])?.values()[0] = i64::MIN;
        builder.array::<u8>("u8", &[3])?.values().copy_from_slice(b"abc");
        builder.array::<u64>("u64", &[])?.values()[0] = u64::MAX;
        builder.array::<bool>("bool", &[3])?.values()[1] = true;
        builder.array::<Bf16>("bf16", &[2])?.values().copy_from_slice(&[0x3f80, 0xc000]);
        builder.array::<f64>("empty", &[3, 0, 5])?;
        builder.rows::<bool>("rows", &[])?.finish()?;
        let mut many = builder.rows::<Bf16>("many", &[3])?;
        for _ in 0..1000 {
            many.push(&[1, 2, 3, 4, 5, 6])?;
        }
        assert_eq!(many.rows(), 2000);
        many.finish()?;
        for shape in [&[usize::MAX, 2][..], &[1 << 62], &[usize::MAX, 0, usize::MAX]] {
            assert!(
                matches!(builder.array::<f64>("large", shape), Err(CacheError::TooLarge { .. })),
                "{shape:?}"
            );
        }
        assert!(matches!(builder.rows::<f64>("large", &[0]), Err(CacheError::TooLarge { .. })));
        Ok(())
    }
    fn sized(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
        builder.array::<f64>("large", &[1 << 50])?;
        Ok(())
    }
    let recipe = |product: &str| Recipe::new(product, "e", &(), Implementation::new(1)).unwrap();
    let artifact = cache.get_or_build(&recipe("all"), (), all).unwrap().artifact;
    assert!(artifact.array::<f32>("f32").unwrap().values()[1].is_nan());
    assert_eq!(artifact.array::<i32>("i32").unwrap().values(), [-1, 1]);
    assert_eq!(artifact.array::<i64>("i64").unwrap().values(), [i64::MIN]);
    assert_eq!(artifact.array::<u8>("u8").unwrap().values(), b"abc");
    assert_eq!(artifact.array::<bool>("bool").unwrap().values(), [false, true, false]);
    assert_eq!(artifact.array::<u64>("u64").unwrap().values(), [u64::MAX]);
    assert_eq!(artifact.array::<u64>("u64").unwrap().row(0), None);
    assert_eq!(artifact.array::<Bf16>("bf16").unwrap().values(), [0x3f80, 0xc000]);
    assert_eq!(artifact.files()["bf16.npy"].dtype, Some(Dtype::Bf16));
    assert!(artifact.files()["bf16.npy"].note.as_ref().unwrap().contains("upper half"));
    assert_eq!(artifact.array::<f64>("empty").unwrap().row(2), Some(&[][..]));
    assert_eq!(artifact.array::<bool>("rows").unwrap().shape(), [0]);
    let many = artifact.array::<Bf16>("many").unwrap();
    assert_eq!((many.shape(), many.row(1999)), (&[2000, 3][..], Some(&[4, 5, 6][..])));
    // No disk has a petabyte of room: an error, and not the end of the process.
    let error = cache.get_or_build(&recipe("sized"), (), sized).unwrap_err();
    assert!(matches!(error, CacheError::Commit(_)), "{error}");

    assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
}

#[test]
fn names_that_are_no_plain_files_are_refused_to_builders() {
    let (root, cache) = cache();
    fn names(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
        for name in ["../x", "/x", "a/b", "..", "", ".hidden", "a\nb", "artifact.json"] {
            assert!(matches!(builder.file(name), Err(CacheError::Name { .. })), "{name:?}");
            if !name.is_empty() && name != "artifact.json" {
                assert!(matches!(builder.array::<u8>(name, &[1]), Err(CacheError::Name { .. })), "{name:?}");
            }
        }
        assert!(matches!(builder.json("artifact", &1), Err(CacheError::Name { .. })));
        builder.json("a", &1)?;
        assert!(matches!(builder.json("A", &1), Err(CacheError::Twice { .. })));
        Ok(())
    }
    cache.get_or_build(&recipe(1), (), names).unwrap();
    for product in ["../x", "a/b", "", ".x"] {
        let bad = Recipe::new(product, "e", &1, Implementation::new(1)).unwrap();
        assert!(matches!(cache.get(&bad), Err(CacheError::Name { .. })));
    }
    assert_eq!(fs::read_dir(root.path().join("cache")).unwrap().count(), 1);
}

#[test]
fn a_builder_gets_its_settings_and_its_dependencies_and_nothing_else() {
    let (_root, cache) = cache();
    let first = get(&cache, 1).unwrap().artifact;
    let second = Recipe::new("sums", "test", &2, Implementation::new(1))
        .unwrap()
        .with_dependency("numbers", *first.key());
    fn sums(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
        let factor: f64 = builder.settings()?;
        let values = builder.dependency("numbers")?.array::<f64>("values")?;
        builder.metadata("sum", &(factor * values.values().iter().sum::<f64>()))?;
        let error = builder.dependency("other").unwrap_err().to_string();
        assert!(error.ends_with("names no dependency `other`; it names `numbers`"), "{error}");
        assert!(matches!(builder.settings::<String>(), Err(CacheError::Decode { .. })));
        Ok(())
    }
    let artifact = cache.get_or_build(&second, (), sums).unwrap().artifact;
    assert_eq!(artifact.metadata()["sum"], 2.0 * (32.0 * 1000.0 + 496.0));
    // A dependency that is gone is found by the deep check.
    cache.quarantine(first.entry()).unwrap();
    let report = cache.verify(|_| ()).unwrap();
    assert!(
        matches!(&report.failures[0].damage, Damage::Dependency { name, key } if name == "numbers" && key == first.key())
    );
    assert!(report.damaged().is_empty());
}

#[test]
fn a_builder_that_asks_for_itself_is_refused() {
    let (_root, cache) = cache();
    fn again(builder: &Builder<'_>, cache: &Cache) -> Result<(), CacheError> {
        let error = cache.get_or_build(builder.recipe(), cache, again).unwrap_err();
        assert!(matches!(error, CacheError::Reentrant { .. }), "{error}");
        // Another product is fine.
        get(cache, 77)?;
        builder.metadata("x", &1)
    }
    let recipe = Recipe::new("again", "e", &1, Implementation::new(1)).unwrap();
    cache.get_or_build(&recipe, &cache, again).unwrap();
}

#[test]
fn a_miss_explains_itself_by_the_nearest_entry() {
    let (_root, cache) = cache();
    let make = |seed: u64, rows: usize, version: u32| {
        Recipe::new("numbers", "test", &Numbers { seed, rows }, Implementation::new(version)).unwrap()
    };
    assert_eq!(cache.why(&make(1, 8, 1)).unwrap().nearest, None);
    for (seed, rows) in [(1, 8), (2, 9), (3, 9)] {
        cache.get_or_build(&make(seed, rows, 1), Duration::ZERO, build).unwrap();
    }
    let why = cache.why(&make(2, 8, 1)).unwrap();
    assert_eq!((why.reason, why.entries, why.compared), (Some(MissReason::Absent), 3, 3));
    let changes = why.nearest.unwrap().changes;
    assert_eq!(changes.len(), 1);
    let why = cache.why(&make(1, 8, 2)).unwrap();
    let nearest = why.nearest.unwrap();
    assert_eq!(nearest.entry, make(1, 8, 1).entry().unwrap());
    assert_eq!(nearest.changes[0].path, "implementation.version");
    assert_eq!((&nearest.changes[0].old, &nearest.changes[0].new), (&Some(1.into()), &Some(2.into())));
    assert_eq!(cache.why(&make(1, 8, 1)).unwrap().reason, None);
}

#[test]
fn files_have_ordinary_modes() {
    let (root, cache) = cache();
    get(&cache, 1).unwrap();
    let probe = root.path().join("probe");
    fs::write(&probe, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, ..) in tree(&root.path().join("cache")) {
        if path.is_file() {
            assert_eq!(mode(&path), mode(&probe), "{}", path.display());
        }
    }
}

/// A disk of four megabytes, where the machine lets us have one. (The kernel counts what is free on it in lumps of its own, so
/// it is not smaller.)
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
        .arg(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        std::io::stderr()
            .write_all(b"SKIPPED: a_full_disk_is_an_error: no disk can be mounted here\n")
            .unwrap();
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let cache = Cache::open(folder.path()).unwrap();
        fn mapped(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
            builder.array::<f64>("x", &[1 << 20])?.values().fill(1.0);
            Ok(())
        }
        fn streamed(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
            let mut rows = builder.rows::<f64>("x", &[1024])?;
            for _ in 0..1024 {
                rows.push(&[1.0; 1024])?;
            }
            rows.finish()
        }
        for build in [mapped, streamed] {
            let error = cache.get_or_build(&recipe(1), (), build).unwrap_err();
            assert!(chain(&error).contains("No space left"), "{}", chain(&error));
            assert_eq!(names(folder.path()), Vec::<String>::new());
        }
        get(&cache, 1).unwrap();
        assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
    });
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    outcome.unwrap();
}

#[test]
fn a_pipe_in_place_of_a_file_is_an_error_and_never_makes_anybody_wait() {
    let (root, cache) = cache();
    let artifact = get(&cache, 1).unwrap().artifact;
    let folder = root.path().join("cache/numbers").join(names(root.path()).remove(0));
    let pipe = |path: &Path| {
        drop(fs::remove_file(path));
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for member in ["about.json", "values.npy"] {
        pipe(&folder.join(member));
    }
    assert!(chain(&artifact.json::<Numbers>("about").unwrap_err()).contains("is not a regular file"));
    assert!(chain(&artifact.array::<f64>("values").unwrap_err()).contains("is not a regular file"));
    drop(artifact);
    pipe(&folder.join("artifact.json"));
    for book in ["history.json", "pins.json"] {
        pipe(&root.path().join(book));
    }
    // Books that cannot be read are garbled: nothing is removed, and they are made again.
    let history = cache.history(0).unwrap();
    assert!(matches!(history.state(), BookState::Garbled { .. }), "{history:?}");
    assert!(cache.pins().unwrap().doubt().is_some());
    assert!(chain(&cache.get(&recipe(1)).unwrap_err()).contains("is not a regular file"));
    assert!(!cache.verify(|_| {}).unwrap().failures.is_empty());
}
