//! Declared sources and what they import, over a crate that is written here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use waycairn_cache::{ImportError, Undeclared, undeclared};

const FILES: &[(&str, &str)] = &[
    (
        "src/lib.rs",
        "mod data; mod prior; mod shape; pub mod deep; mod error; mod unused; #[path = \"odd/place.rs\"] mod odd;\n\
         pub use data::build; pub use shape::*; pub const LIMIT: usize = 3;\n\
         #[macro_export] macro_rules! say { () => {} }",
    ),
    (
        "src/data.rs",
        "use crate::prior::{Uniform, self as p}; use std::collections::BTreeMap; mod inner;\n\
                     pub fn build(u: Uniform) -> BTreeMap<u8, u8> { inner::go(); p::draw(); format!(\"{}\", crate::shape::AREA); BTreeMap::new() }\n\
                     #[cfg(test)] mod tests { use crate::unused::X; }",
    ),
    ("src/data/inner.rs", "pub fn go() { super::super::error::fail() }"),
    ("src/prior.rs", "pub struct Uniform; pub fn draw() {} pub fn other() -> usize { crate::LIMIT }"),
    ("src/shape.rs", "pub const AREA: u8 = 1; pub struct Square;"),
    ("src/error.rs", "pub fn fail() {}"),
    ("src/unused.rs", "pub struct X;"),
    ("src/odd/place.rs", "use crate::Square; pub fn f() -> Square { Square }"),
    ("src/deep/mod.rs", "pub mod low; pub(crate) use low::Low; pub use crate::unused::X as Renamed;"),
    ("src/deep/low.rs", "pub struct Low; impl Low { pub fn g() { crate::deep::Renamed; crate::say!() } }"),
];

fn write(folder: &Path) {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn imports(folder: &Path, declared: &[&str]) -> Vec<String> {
    let lines = undeclared(folder, declared).unwrap().into_iter();
    lines.map(|Undeclared { file, imports, .. }| format!("{file} -> {imports}")).collect()
}

#[test]
fn cache_1_a_declared_source_that_imports_an_undeclared_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let imports = |declared: &[&str]| imports(folder.path(), declared);
    // By `use`, by `mod`, by a path in the argument of a macro.
    assert_eq!(
        imports(&["src/data.rs"]),
        ["src/data.rs -> src/data/inner.rs", "src/data.rs -> src/prior.rs", "src/data.rs -> src/shape.rs"]
    );
    // By `super`.
    assert_eq!(imports(&["src/data/inner.rs"]), ["src/data/inner.rs -> src/error.rs"]);
    // An item of the root is in the root's file; a name that the root passes on is not.
    assert_eq!(imports(&["src/prior.rs"]), ["src/prior.rs -> src/lib.rs"]);
    assert_eq!(imports(&["src/odd/place.rs"]), ["src/odd/place.rs -> src/shape.rs"]);
    // Through a renamed re-export, and a macro that is called by its path.
    assert_eq!(
        imports(&["src/deep/low.rs"]),
        ["src/deep/low.rs -> src/lib.rs", "src/deep/low.rs -> src/unused.rs"]
    );
    // A closed set.
    let closed =
        ["src/data.rs", "src/data/inner.rs", "src/prior.rs", "src/shape.rs", "src/error.rs", "src/lib.rs"];
    assert_eq!(imports(&closed), Vec::<String>::new());
    assert_eq!(imports(&["src/shape.rs"]), Vec::<String>::new());
}

#[test]
fn a_line_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let line = undeclared(folder.path(), &["src/data/inner.rs"]).unwrap().remove(0);
    assert_eq!(line.by, "super::super::error::fail");
}

#[test]
fn what_is_no_module_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let error = undeclared(folder.path(), &["src/nowhere.rs"]).unwrap_err();
    assert!(matches!(error, ImportError::NotAModule { .. }), "{error}");
    fs::write(folder.path().join("src/error.rs"), "fn (").unwrap();
    assert!(matches!(undeclared(folder.path(), &["src/data.rs"]), Err(ImportError::Parse { .. })));
    fs::remove_file(folder.path().join("src/error.rs")).unwrap();
    assert!(matches!(undeclared(folder.path(), &["src/data.rs"]), Err(ImportError::Read { .. })));
}

/// The sources of this crate are followed too, whatever they grow into.
#[test]
fn the_sources_of_a_real_crate_are_followed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = imports(folder, &["src/npy.rs"]);
    assert_eq!(found, ["src/npy.rs -> src/array.rs"]);
    assert_eq!(imports(folder, &["src/value.rs"]), Vec::<String>::new());
}

/// Every list of sources in the workspace: a builder that declares some has to declare what they import.
#[test]
fn cache_1_the_sources_that_a_crate_of_this_workspace_declares_are_complete() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut checked = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        // This crate's own lists are examples.
        if folder.ends_with("cache") || !folder.join("src").is_dir() {
            continue;
        }
        let mut declared = Vec::new();
        let mut open = vec![folder.join("src")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for list in text.split(" sources![").skip(1) {
                let list = list.split(']').next().unwrap();
                declared.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
        if !declared.is_empty() {
            let declared: Vec<&str> = declared.iter().map(String::as_str).collect();
            assert_eq!(imports(&folder, &declared), Vec::<String>::new(), "in `{}`", folder.display());
            checked += 1;
        }
    }
    assert!(checked > 0, "no crate declares sources");
}
