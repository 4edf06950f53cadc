use std::fs;

use tempfile::tempdir;
use waycairn_analysis_host::{Discovery, LoadError, SelectError, all, discover, named, select};

use crate::authors::authors;
use crate::kit::{hostile, summary};

#[test]
fn folders_are_searched_in_order_and_a_bad_file_does_not_stop_the_search() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    fs::copy(hostile(), first.path().join("b.so")).unwrap();
    fs::write(first.path().join("a.so"), "text").unwrap();
    fs::write(first.path().join("notes.txt"), "text").unwrap();
    fs::write(first.path().join(".hidden.so"), "text").unwrap();
    fs::create_dir(first.path().join("folder.so")).unwrap();
    fs::copy(summary(), second.path().join("c.so")).unwrap();
    let request = Discovery {
        files: vec![summary()],
        dirs: vec![first.path().to_owned()],
        default_dirs: vec![second.path().to_owned(), first.path().join("absent")],
    };
    let found = discover(&request);
    let paths: Vec<_> = found.iter().map(|found| found.path.clone()).collect();
    assert_eq!(
        paths,
        [summary(), first.path().join("a.so"), first.path().join("b.so"), second.path().join("c.so")]
    );
    assert!(matches!(found[1].result, Err(LoadError::NotALibrary { .. })));
    // `c.so` is a copy of the summary library: one analysis, the first.
    let names: Vec<_> = all(&found).unwrap().iter().map(|a| a.declaration().name.clone()).collect();
    assert_eq!(names, ["summary", "hostile", "healthy", "metric", "plot", "caller", "chain", "threads"]);
    assert_eq!(select(&found, "summary").unwrap().path(), summary());
}

#[test]
fn a_named_folder_that_is_missing_is_an_error_and_a_default_one_is_not() {
    let folder = tempdir().unwrap();
    let absent = folder.path().join("absent");
    let found = discover(&Discovery { dirs: vec![absent.clone()], ..Discovery::default() });
    assert!(matches!(found[0].result, Err(LoadError::NoFolder { .. })));
    assert!(discover(&Discovery { default_dirs: vec![absent], ..Discovery::default() }).is_empty());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let found = discover(&Discovery { dirs: vec![file], ..Discovery::default() });
    assert!(found[0].result.as_ref().unwrap_err().to_string().contains("is not a folder"));
}

#[test]
fn a_file_that_is_reached_twice_is_opened_once() {
    let request = Discovery {
        files: vec![summary(), summary()],
        dirs: vec![summary().parent().unwrap().to_owned()],
        ..Discovery::default()
    };
    let found = discover(&request);
    assert_eq!(found.iter().filter(|found| found.path.ends_with(summary().file_name().unwrap())).count(), 1);
}

#[test]
fn two_analyses_of_one_name_are_an_error_that_names_both_files() {
    // The author's plugin calls its analysis `summary`, too.
    let theirs = authors().library("theirs");
    let found = discover(&Discovery { files: vec![summary(), theirs.clone()], ..Discovery::default() });
    let error = select(&found, "summary").unwrap_err();
    assert!(matches!(&error, SelectError::Ambiguous { files, .. } if files == &[summary(), theirs.clone()]));
    let text = error.to_string();
    assert!(text.contains("waycairn_summary") && text.contains("theirs"), "{text}");
    assert!(text.ends_with("pick one as `FILE#summary`"), "{text}");
    assert!(all(&found).is_err());

    for file in ["theirs", theirs.file_name().unwrap().to_str().unwrap(), theirs.to_str().unwrap()] {
        let picked = select(&found, &format!("{file}#summary")).unwrap();
        assert_eq!(picked.path(), theirs);
    }
    assert_eq!(select(&found, "waycairn_summary#summary").unwrap().path(), summary());
}

#[test]
fn a_named_plugin_is_run_whole_and_the_others_can_still_be_picked() {
    let (place, other) = (tempdir().unwrap(), tempdir().unwrap());
    fs::copy(hostile(), place.path().join("placed.so")).unwrap();
    let request = |files: Vec<_>, default: &std::path::Path| Discovery {
        files,
        default_dirs: vec![default.to_owned()],
        ..Discovery::default()
    };
    let found = discover(&request(vec![summary()], place.path()));
    assert_eq!(found.iter().map(|found| found.named).collect::<Vec<_>>(), [true, false]);
    let names = |found: &[_]| -> Vec<String> {
        named(found).unwrap().iter().map(|a| a.declaration().name.clone()).collect()
    };
    assert_eq!(names(&found), ["summary"]);
    assert_eq!(select(&found, "healthy").unwrap().path(), place.path().join("placed.so"));

    // An equal copy in a place is no second analysis; another library with the name is one, wherever it lies.
    fs::copy(summary(), other.path().join("copy.so")).unwrap();
    assert_eq!(names(&discover(&request(vec![summary()], other.path()))), ["summary"]);
    let theirs = authors().library("theirs");
    let found = discover(&request(vec![theirs.clone()], other.path()));
    let text = named(&found).unwrap_err().to_string();
    assert!(text.contains("theirs") && text.contains("copy.so"), "{text}");
    assert_eq!(select(&found, "theirs#summary").unwrap().path(), theirs);
}

#[test]
fn an_unknown_name_lists_what_there_is() {
    let found = discover(&Discovery { files: vec![hostile()], ..Discovery::default() });
    let text = select(&found, "healty").unwrap_err().to_string();
    assert_eq!(text, "no analysis `healty` among the plugins; did you mean `healthy`?");
    let text = select(&found, "nothing").unwrap_err().to_string();
    assert_eq!(
        text,
        "no analysis `nothing` among the plugins; they have caller, chain, healthy, hostile, metric, plot, threads"
    );
    let text = select(&[], "nothing").unwrap_err().to_string();
    assert!(text.starts_with("no analysis `nothing`: no plugin was found; build one, "), "{text}");
}
