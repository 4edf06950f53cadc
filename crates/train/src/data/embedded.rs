//! The text that every binary carries, so that a first run needs no file.

/// The project's own documentation, then the sources of this crate, one after the other.
///
/// The last tenth is what a run validates on. The documentation stands first, so that it is more of what was trained
/// on. The README is left out: it tells measured results, and they would change with it.
pub(crate) const EMBEDDED: &str = concat!(
    include_str!("../../../../ARCHITECTURE.md"),
    include_str!("../../../../docs/format.md"),
    include_str!("../../../../docs/plugins.md"),
    include_str!("../any_experiment.rs"),
    include_str!("../best.rs"),
    include_str!("../call.rs"),
    include_str!("../checkpoint/error.rs"),
    include_str!("../checkpoint/files.rs"),
    include_str!("../checkpoint/job.rs"),
    include_str!("../checkpoint/manifest.rs"),
    include_str!("../checkpoint/mod.rs"),
    include_str!("../checkpoint/read.rs"),
    include_str!("../checkpoint/state.rs"),
    include_str!("../checkpoint/tensors.rs"),
    include_str!("../checkpoint/write.rs"),
    include_str!("../course.rs"),
    include_str!("batch.rs"),
    include_str!("error.rs"),
    include_str!("fingerprint.rs"),
    include_str!("loader.rs"),
    include_str!("mod.rs"),
    include_str!("order.rs"),
    include_str!("plan.rs"),
    include_str!("rows.rs"),
    include_str!("stream.rs"),
    include_str!("text.rs"),
    include_str!("vocabulary.rs"),
    include_str!("../describe.rs"),
    include_str!("../device.rs"),
    include_str!("../error.rs"),
    include_str!("../experiment.rs"),
    include_str!("../explain.rs"),
    include_str!("../export.rs"),
    include_str!("../function.rs"),
    include_str!("../generator.rs"),
    include_str!("../gpt/mod.rs"),
    include_str!("../gpt/model.rs"),
    include_str!("../history.rs"),
    include_str!("../hold.rs"),
    include_str!("../identity.rs"),
    include_str!("../inspect.rs"),
    include_str!("../job.rs"),
    include_str!("../known.rs"),
    include_str!("../language.rs"),
    include_str!("../launch.rs"),
    include_str!("../learner.rs"),
    include_str!("../lib.rs"),
    include_str!("../memory.rs"),
    include_str!("../moments.rs"),
    include_str!("../nre/mod.rs"),
    include_str!("../nre/model.rs"),
    include_str!("../of_rows.rs"),
    include_str!("../optimizer.rs"),
    include_str!("../origin.rs"),
    include_str!("../past.rs"),
    include_str!("../prepare.rs"),
    include_str!("../progress.rs"),
    include_str!("../request.rs"),
    include_str!("../restore.rs"),
    include_str!("../retention.rs"),
    include_str!("../row_experiment.rs"),
    include_str!("../run.rs"),
    include_str!("../sample.rs"),
    include_str!("../saver.rs"),
    include_str!("../schedule.rs"),
    include_str!("../schema.rs"),
    include_str!("../settings.rs"),
    include_str!("../settled.rs"),
    include_str!("../stand_in.rs"),
    include_str!("../stop.rs"),
    include_str!("../taken.rs"),
    include_str!("../trainer.rs"),
    include_str!("../verify.rs"),
    include_str!("../weights.rs"),
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_text_is_long_enough_to_learn_from() {
        assert!(EMBEDDED.len() > 300_000);
        assert!(EMBEDDED.is_ascii());
    }

    #[test]
    fn the_text_is_the_projects_own_documentation_and_sources() {
        for title in ["# Architecture\n", "# Format\n", "# Plugins\n"] {
            assert!(EMBEDDED.contains(title), "{title}");
        }
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = 0;
        for inside in ["", "checkpoint", "data", "gpt", "nre"] {
            for entry in std::fs::read_dir(folder.join(inside)).unwrap() {
                let path = entry.unwrap().path();
                let own = path.ends_with("data/embedded.rs");
                if own || path.extension().is_none_or(|extension| extension != "rs") {
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                assert!(EMBEDDED.contains(&source), "`{}` is not in the list", path.display());
                sources += 1;
            }
        }
        assert!(sources > 40);
    }
}
