//! Lists the workspace's sources, so that the library can embed them: an archive of them goes with every study.

#![expect(clippy::disallowed_methods, reason = "cargo talks to a build script by variables and files")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let mut files = Vec::new();
    for file in ["Cargo.toml", "Cargo.lock"] {
        files.push(PathBuf::from(file));
    }
    for group in ["crates", "plugins"] {
        println!("cargo::rerun-if-changed={}", workspace.join(group).display());
        for package in entries(&workspace.join(group))? {
            let package = Path::new(group).join(package);
            files.push(package.join("Cargo.toml"));
            collect(&workspace, &package.join("src"), &mut files)?;
        }
    }
    files.retain(|file| workspace.join(file).is_file());
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let path = fs::canonicalize(workspace.join(file))?;
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(list, "    ({:?}, include_bytes!({:?})),", file.to_string_lossy().replace('\\', "/"), path)?;
    }
    list.push(']');
    fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("sources.rs"), list)?;
    Ok(())
}

/// The names in a folder, sorted; none where there is no folder.
fn entries(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Collects Rust sources and what they embed, without tests: they decide no result.
fn collect(workspace: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for name in entries(&workspace.join(folder))? {
        let path = folder.join(&name);
        if workspace.join(&path).is_dir() {
            if name != "tests" {
                collect(workspace, &path, files)?;
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    Ok(())
}
