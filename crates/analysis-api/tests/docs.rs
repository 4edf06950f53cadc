//! The guide for authors begins with the plugin that the crate's documentation compiles.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

/// The first block of this language.
fn block<'t>(text: &'t str, language: &str) -> &'t str {
    let start = text.find(&format!("```{language}\n")).unwrap();
    let end = start + text[start..].find("\n```\n").unwrap();
    &text[start..end]
}

#[test]
fn the_guide_begins_with_the_compiled_plugin() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let guide = std::fs::read_to_string(folder.join("../../docs/plugins.md")).unwrap();
    assert_eq!(block(&guide, "rust"), block(&readme, "rust"));
    assert_eq!(block(&guide, "toml"), block(&readme, "toml"));
}
