//! The guide for authors begins with the plugin that the crate's documentation compiles, and what else it shows of Rust
//! is compiled here.

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

/// The guide's example of a plugin of a study.
mod studied {
    use waycairn_analysis_api::serde_json::{Value, json};
    use waycairn_analysis_api::{
        Analysis, AnalysisError, BuildContext, Checked, Context, Declaration, Needs, Product,
        ProductDeclaration, Sources, Study, export_analyses, sources, stream,
    };

    /// Every source file that decides a number.
    const SOURCES: Sources = sources!["src/lib.rs"];

    /// What the library adds to the settings of a study.
    fn defaults() -> Value {
        json!({"walks": {"seed": 2026, "count": 1000, "steps": 100, "max_bytes": 1_000_000_000}})
    }

    /// One of its numbers, of what the selector returned.
    fn number(selected: &Value, name: &str) -> usize {
        selected["analysis"]["walks"][name].as_u64().unwrap_or_default() as usize
    }

    struct Walks;

    impl Product for Walks {
        fn declare() -> ProductDeclaration {
            ProductDeclaration::new("walks", 1, "random walks").sources(SOURCES)
        }

        fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
            Ok(study.pick(&["analysis.walks"])?)
        }

        fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
            Ok(json!({"bytes": number(selected, "count") * number(selected, "steps") * 8}))
        }

        fn check(selected: &Value) -> Result<Checked, AnalysisError> {
            let (bytes, limit) = (Self::estimate(selected)?["bytes"].as_u64(), number(selected, "max_bytes"));
            let mut checked = Checked::default();
            if bytes > Some(limit as u64) {
                let count = number(selected, "count");
                checked.errors.push(format!("walks.count={count} needs more than walks.max_bytes={limit}"));
            }
            Ok(checked)
        }

        fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
            let settings = context.settings();
            let (count, steps) = (number(settings, "count"), number(settings, "steps"));
            let seed = number(settings, "seed") as u64;
            let mut walks = context.array::<f64>("walks", &[count, steps])?;
            std::thread::scope(|scope| {
                let rows = count.div_ceil(4).max(1);
                for (part, values) in walks.values().chunks_mut((rows * steps).max(1)).enumerate() {
                    scope.spawn(move || {
                        let mut stream = stream(seed, "walks", None);
                        stream.seek((part * rows * steps) as u64);
                        for walk in values.chunks_mut(steps) {
                            walk.iter_mut().fold(0.0, |place, value| {
                                *value = place + stream.uniform() - 0.5;
                                *value
                            });
                        }
                    });
                }
            });
            context.metadata("count", &count)?;
            Ok(())
        }
    }

    /// The mean square of where the walks end.
    #[derive(Default)]
    struct Spread;

    impl Analysis for Spread {
        fn declare() -> Declaration {
            Declaration::new("spread", "1.0.0", "how far the walks get")
                .metric()
                .needs(Needs::default().product("walks").study("analysis.walks.steps"))
                .sources(SOURCES)
        }

        fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
            let steps = number(context.study(), "steps");
            let walks = context.product("walks")?;
            let ends = walks.array::<f64>("walks")?.chunks(steps).filter_map(|walk| walk.last());
            let squares: f64 = ends.map(|end| end * end).sum();
            let count = walks.shape("walks")?[0];
            context.emit_metric(&json!({"mean_square": squares / count as f64}))?;
            Ok(())
        }
    }

    /// The first walk as a line.
    #[derive(Default)]
    struct Line;

    impl Analysis for Line {
        fn declare() -> Declaration {
            Declaration::new("line", "1.0.0", "the first walk")
                .plot()
                .needs(Needs::default().product("walks").study("analysis.walks.steps"))
                .sources(SOURCES)
        }

        fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
            let steps = number(context.study(), "steps");
            let walks = context.product("walks")?;
            let first = walks.array::<f64>("walks")?.iter().take(steps).enumerate();
            let points: Vec<String> = first.map(|(x, y)| format!("{x},{}", 50.0 + 10.0 * y)).collect();
            let svg = format!(
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {steps} 100'>\
                 <polyline points='{}' fill='none' stroke='black'/></svg>",
                points.join(" ")
            );
            context.emit_figure("first", "image/svg+xml", svg.as_bytes())?;
            Ok(())
        }
    }

    export_analyses! { analyses: [Spread, Line], products: [Walks], settings: defaults }

    #[test]
    fn the_example_selects_and_checks_what_it_says() {
        let (training, analysis) = (json!({"seed": 1}), defaults());
        let selected = Walks::select(&Study::new(&training, &analysis, "m")).unwrap();
        assert_eq!(selected, json!({ "analysis": analysis }));
        assert_eq!(Walks::estimate(&selected).unwrap(), json!({"bytes": 800_000}));
        assert!(Walks::check(&selected).unwrap().errors.is_empty());
        let small = json!({"analysis": {"walks": {"count": 1000, "steps": 100, "max_bytes": 10}}});
        assert_eq!(
            Walks::check(&small).unwrap().errors,
            ["walks.count=1000 needs more than walks.max_bytes=10"]
        );
    }
}

#[test]
fn every_other_example_of_the_guide_is_compiled_here() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md")).unwrap();
    let mut others = guide.split("```rust\n").skip(2).peekable();
    assert!(others.peek().is_some());
    for example in others {
        let (example, _) = example.split_once("```").unwrap();
        let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
        let indented: String = example.lines().map(line).collect();
        assert!(include_str!("docs.rs").contains(&indented), "{example}");
    }
}
