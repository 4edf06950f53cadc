//! The guide for authors begins with the plugin that the crate's documentation compiles, and what it shows of Rust besides
//! whole plugins is compiled here.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use waycairn_analysis_api::{AnalysisError, Context};

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

/// The guide's example of an analysis that can do without a batch.
#[expect(dead_code, reason = "it is compiled, and compared with the guide")]
fn number_of_tensors(context: &Context<'_>) -> Result<usize, AnalysisError> {
    use waycairn_analysis_api::ErrorKind;
    let batch = match context.batch() {
        Err(error) if error.kind() == ErrorKind::Unavailable => None,
        other => Some(other?),
    };
    Ok(batch.map_or(0, |batch| batch.iter().count()))
}

/// The whole plugins of the guide are built and run by the tests of the host.
#[test]
fn every_other_example_of_the_guide_is_compiled_here() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md")).unwrap();
    let blocks = guide.split("```rust\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let mut others = blocks.filter(|block| !block.contains("export_analyses!")).peekable();
    assert!(others.peek().is_some());
    for example in others {
        let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
        let indented: String = example.lines().map(line).collect();
        assert!(include_str!("docs.rs").contains(&indented), "{example}");
    }
}
