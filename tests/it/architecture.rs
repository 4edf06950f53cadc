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
    ("waycairn-store", &["waycairn-dag", "waycairn-durable"]),
    ("waycairn-analysis-host", &["waycairn-analysis-api", "waycairn-durable"]),
    ("waycairn-train", &["waycairn-dag", "waycairn-durable", "waycairn-store", "waycairn-analysis-host"]),
    (
        "waycairn-cli",
        &[
            "waycairn-dag",
            "waycairn-durable",
            "waycairn-store",
            "waycairn-train",
            "waycairn-analysis-api",
            "waycairn-analysis-host",
        ],
    ),
    ("waycairn-summary", &["waycairn-analysis-api"]),
    ("waycairn-hostile", &["waycairn-analysis-api"]),
];

/// Heavy crates, and the members whose normal dependencies may reach them.
const HEAVY: &[(&str, &[&str])] = &[
    ("datafusion", &["waycairn-store", "waycairn-train", "waycairn-cli"]),
    ("tokio", &["waycairn-store", "waycairn-train", "waycairn-cli"]),
    ("burn", &["waycairn-train", "waycairn-cli"]),
    ("arrow", &["waycairn-store", "waycairn-analysis-host", "waycairn-train", "waycairn-cli"]),
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
