//! The dependency direction of the workspace, read from `cargo metadata`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

/// Who may use whom, complete. `tests`, `benches` and `xtask` may see everything; nothing sees them.
const ALLOWED: &[(&str, &[&str])] = &[
    ("waycairn-durable", &[]),
    ("waycairn-dag", &[]),
    ("waycairn-analysis-api", &[]),
    ("waycairn-gaussian", &[]),
    ("waycairn-store", &["waycairn-dag", "waycairn-durable"]),
    ("waycairn-cache", &["waycairn-durable"]),
    ("waycairn-analysis-host", &["waycairn-analysis-api", "waycairn-durable"]),
    (
        "waycairn-train",
        &[
            "waycairn-dag",
            "waycairn-durable",
            "waycairn-store",
            "waycairn-cache",
            "waycairn-gaussian",
            "waycairn-analysis-host",
        ],
    ),
    (
        "waycairn-study",
        &[
            "waycairn-train",
            "waycairn-cache",
            "waycairn-store",
            "waycairn-dag",
            "waycairn-durable",
            "waycairn-analysis-host",
        ],
    ),
    (
        "waycairn-cli",
        &[
            "waycairn-dag",
            "waycairn-durable",
            "waycairn-store",
            "waycairn-cache",
            "waycairn-train",
            "waycairn-study",
            "waycairn-analysis-api",
            "waycairn-analysis-host",
        ],
    ),
    ("waycairn-summary", &["waycairn-analysis-api"]),
    ("waycairn-hostile", &["waycairn-analysis-api"]),
    ("waycairn-loss-by-position", &["waycairn-analysis-api"]),
    ("waycairn-gaussian-study", &["waycairn-analysis-api", "waycairn-gaussian"]),
];

/// Heavy crates, and the members whose normal dependencies may reach them.
const HEAVY: &[(&str, &[&str])] = &[
    ("datafusion", &["waycairn-store", "waycairn-train", "waycairn-study", "waycairn-cli"]),
    ("tokio", &["waycairn-store", "waycairn-train", "waycairn-study", "waycairn-cli"]),
    ("burn", &["waycairn-train", "waycairn-study", "waycairn-cli"]),
    (
        "arrow",
        &["waycairn-store", "waycairn-analysis-host", "waycairn-train", "waycairn-study", "waycairn-cli"],
    ),
];

/// Crates whose types stay behind the interface of few members, and these members: others may reach them through
/// those, and name them nowhere.
const DIRECT: &[(&str, &[&str])] = &[
    ("arrow", &["waycairn-store", "waycairn-analysis-host"]),
    ("parquet", &["waycairn-store"]),
    ("datafusion", &["waycairn-store"]),
    ("burn", &["waycairn-train"]),
];

/// Package name -> the packages that it uses, built and run (not for tests, not for build scripts).
fn normal_edges(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("metadata has packages")
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut edges = BTreeMap::<String, BTreeSet<String>>::new();
    for node in metadata["resolve"]["nodes"].as_array().expect("metadata has a resolution") {
        let from = name_of[node["id"].as_str().expect("a node has an id")];
        let to = edges.entry(from.to_owned()).or_default();
        for dependency in node["deps"].as_array().expect("a node has deps") {
            let kinds = dependency["dep_kinds"].as_array().expect("a dependency has kinds");
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                to.insert(
                    name_of[dependency["pkg"].as_str().expect("a dependency has a package")].to_owned(),
                );
            }
        }
    }
    edges
}

fn closure(edges: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(package) = open.pop() {
        for next in edges.get(&package).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

#[test]
fn crates_depend_only_in_the_allowed_direction() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--manifest-path"])
        .arg(&manifest)
        // The crates of other platforms need not be there.
        .args(["--filter-platform", "host-tuple"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let edges = normal_edges(&metadata);

    let members: BTreeSet<&str> = metadata["packages"]
        .as_array()
        .expect("metadata has packages")
        .iter()
        .filter(|package| package["source"].is_null())
        .filter_map(|package| package["name"].as_str())
        .filter(|name| !["waycairn-tests", "waycairn-benches", "xtask"].contains(name))
        .collect();
    let listed: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    assert_eq!(members, listed, "a crate was added or removed: say here what it may use");

    for (member, allowed) in ALLOWED {
        for used in edges[*member].iter().filter(|used| used.starts_with("waycairn-")) {
            assert!(allowed.contains(&used.as_str()), "`{member}` must not use `{used}`");
        }
        for (hidden, may) in DIRECT {
            assert!(
                may.contains(member) || !edges[*member].contains(*hidden),
                "`{member}` must not name `{hidden}`: it stays behind {may:?}"
            );
        }
        let reached = closure(&edges, member);
        for (heavy, may) in HEAVY {
            assert!(
                may.contains(member) || !reached.contains(*heavy),
                "`{heavy}` must stay out of `{member}`: it costs every build that uses it"
            );
        }
    }
}

/// Every test of `crates/` and `plugins/` that carries the id of an invariant, as it stands in the index:
/// `store: store_1_...`, `plugins/gaussian: gaussian_study_1_...`.
fn tests_with_an_id(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let within = |folder: &str| std::fs::read_dir(root.join(folder)).expect("a folder");
    for entry in within("crates").chain(within("plugins")) {
        let folder = entry.expect("an entry").path();
        let label = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let plugin = folder.parent().is_some_and(|above| above.ends_with("plugins"));
        let label = if plugin { format!("plugins/{label}") } else { label };
        let mut open = vec![folder];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(
                    std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()),
                );
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).expect("a source");
                let functions = source.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
                let names = functions.filter_map(|rest| rest.split_once('(').map(|(name, _)| name));
                found.extend(
                    names.filter(|name| id_of(name).is_some()).map(|name| format!("{label}: `{name}`")),
                );
            }
        }
    }
    found
}

/// The invariant whose id a test carries: `STORE-1` of `store_1_...`, `GAUSSIAN-STUDY-1` of `gaussian_study_1_...`.
fn id_of(test: &str) -> Option<String> {
    const AREAS: [&str; 10] =
        ["durable", "dag", "store", "cache", "train", "study", "gaussian", "gaussian_study", "abi", "cli"];
    let number = test.split('_').position(|part| part.parse::<u32>().is_ok())?;
    let parts: Vec<&str> = test.split('_').collect();
    let area = parts[..number].join("_");
    // Behind the number stands what the test says.
    (AREAS.contains(&area.as_str()) && number + 1 < parts.len())
        .then(|| format!("{}-{}", area.replace('_', "-").to_uppercase(), parts[number]))
}

#[test]
fn the_index_of_invariants_names_every_test_that_carries_an_id() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let mut listed = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let &[id, _, tests] = cells.as_slice() else { continue };
        let id = id.trim().trim_matches('`');
        for test in tests.trim().split("<br>") {
            let of = test.split_once('`').and_then(|(_, name)| id_of(name.trim_end_matches('`')));
            if let Some(of) = of {
                assert_eq!(of, id, "{test} stands in the row of another invariant");
                listed.insert(test.to_owned());
            }
        }
    }
    let found = tests_with_an_id(&root);
    let missing: Vec<&String> = found.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&found).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "section 6 of ARCHITECTURE.md: add {missing:#?}, remove {gone:#?}"
    );
    assert!(found.len() > 100);
}
