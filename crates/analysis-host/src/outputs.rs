//! What one run of an analysis emitted, collected and checked. Nothing is attached here.

use std::collections::BTreeSet;

use serde_json::Value;
use waycairn_analysis_api::{ContextError as HostError, Scalar};

use crate::declared::Kind;

/// A recorded value.
pub use waycairn_analysis_api::Scalar as ScalarOut;

/// The longest suffix, key or file name.
const NAME_LIMIT: usize = 200;

/// Keys of an analysis that are not its own: its provenance, and the names of its result files, which the store
/// records. Readers know them by their last part.
const RESERVED: [&str; 6] =
    ["plugin", "plugin_version", "plugin_sha256", "settings_sha256", "fingerprint", "result_files"];

const MEDIA_TYPES: [(&str, &str); 8] = [
    ("application/json", "json"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("application/pdf", "pdf"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/csv", "csv"),
];

/// Scalars that describe an artifact, key and value.
pub type Description = Vec<(String, ScalarOut)>;

/// What to attach to the node if the run succeeded.
///
/// Names are plain and unique, also on file systems that ignore case. Two outputs never record the same key.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Outputs {
    /// Suffix, description, MessagePack payload. The description is recorded as `<suffix>/<key>`.
    pub artifacts: Vec<(String, Description, Vec<u8>)>,
    /// Key without the analysis's name, and value. Recorded as `<analysis>/<key>`.
    pub scalars: Vec<(String, ScalarOut)>,
    /// `<name>.<extension>` without the analysis's name, media type, bytes. The node's entry is
    /// `<analysis>.<name>.<extension>`.
    pub files: Vec<(String, String, Vec<u8>)>,
    /// The answer of a metric. A metric has one, and nothing else has.
    pub metric: Option<Value>,
}

/// Outputs under construction, with what keeps them unique.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) outputs: Outputs,
    keys: BTreeSet<String>,
    artifacts: BTreeSet<String>,
    files: BTreeSet<String>,
    /// The first refusal. An analysis that ignores it would leave an incomplete result behind.
    pub(crate) refused: Option<String>,
}

impl Collector {
    pub(crate) fn artifact(
        &mut self,
        analysis: &str,
        suffix: &str,
        description: Vec<(String, Scalar)>,
        payload: &[u8],
    ) -> Result<(), HostError> {
        let result = self.check_artifact(analysis, suffix, &description);
        self.note(&result);
        result?;
        self.outputs.artifacts.push((suffix.to_owned(), description, payload.to_vec()));
        Ok(())
    }

    pub(crate) fn scalar(&mut self, analysis: &str, key: &str, value: Scalar) -> Result<(), HostError> {
        let result = check_key(key).and_then(|()| self.claim_key(analysis, key));
        self.note(&result);
        result?;
        self.outputs.scalars.push((key.to_owned(), value));
        Ok(())
    }

    pub(crate) fn file(&mut self, name: &str, media_type: &str, bytes: &[u8]) -> Result<(), HostError> {
        let result = self.check_file(name, media_type);
        self.note(&result);
        self.outputs.files.push((result?, media_type.to_owned(), bytes.to_vec()));
        Ok(())
    }

    pub(crate) fn metric(&mut self, kind: Kind, text: &str) -> Result<(), HostError> {
        let result = self.check_metric(kind, text);
        self.note(&result);
        self.outputs.metric = Some(result?);
        Ok(())
    }

    /// What a metric or a plot that ended well left out.
    pub(crate) fn missing(&self, kind: Kind) -> Option<&'static str> {
        let figure = |(_, media_type, _): &(String, String, Vec<u8>)| media_type != "application/json";
        match kind {
            Kind::Metric if self.outputs.metric.is_none() => {
                Some("it is a metric and answered none; call `emit_metric` once")
            }
            Kind::Plot if !self.outputs.files.iter().any(figure) => {
                Some("it is a plot and made no figure; call `emit_figure`")
            }
            _ => None,
        }
    }

    fn check_metric(&self, kind: Kind, text: &str) -> Result<Value, HostError> {
        if kind != Kind::Metric {
            let text = format!("only a metric answers one, and this is declared as {kind}; add `.metric()`");
            return Err(HostError::invalid(text));
        }
        if self.outputs.metric.is_some() {
            return Err(HostError::invalid("the metric was answered before in this call"));
        }
        serde_json::from_str(text)
            .map_err(|error| HostError::invalid(format!("the answer of the metric is no JSON: {error}")))
    }

    fn note<T>(&mut self, result: &Result<T, HostError>) {
        if let Err(error) = result
            && self.refused.is_none()
        {
            self.refused = Some(error.message().to_owned());
        }
    }

    fn check_artifact(
        &mut self,
        analysis: &str,
        suffix: &str,
        description: &[(String, Scalar)],
    ) -> Result<(), HostError> {
        check_plain("suffix", suffix)?;
        // Descriptions are recorded under the suffix: a suffix such as `train` would let an analysis write the
        // node's own metrics.
        let own =
            suffix == analysis || suffix.strip_prefix(analysis).is_some_and(|rest| rest.starts_with('.'));
        if !own && !description.is_empty() {
            return Err(HostError::invalid(format!(
                "artifact `{suffix}` has a description, which is recorded under its suffix; call it `{analysis}` or \
                 `{analysis}.{suffix}`"
            )));
        }
        if !self.artifacts.insert(suffix.to_lowercase()) {
            return Err(HostError::invalid(format!("artifact `{suffix}` was emitted before in this call")));
        }
        for (key, _) in description {
            check_key(key)?;
            self.claim_key(suffix, key)?;
        }
        Ok(())
    }

    fn claim_key(&mut self, prefix: &str, key: &str) -> Result<(), HostError> {
        let last = key.rsplit_once('/').map_or(key, |(_, last)| last);
        if RESERVED.contains(&last) {
            return Err(HostError::invalid(format!(
                "the key `{key}` is reserved: `{last}` is the host's; use another"
            )));
        }
        let full = format!("{prefix}/{key}");
        if self.keys.contains(&full) {
            return Err(HostError::invalid(format!("`{full}` was emitted before in this call")));
        }
        self.keys.insert(full);
        Ok(())
    }

    fn check_file(&mut self, name: &str, media_type: &str) -> Result<String, HostError> {
        check_plain("file name", name)?;
        let Some((_, extension)) = MEDIA_TYPES.iter().find(|(known, _)| *known == media_type) else {
            let known = MEDIA_TYPES.map(|(known, _)| known).join(", ");
            return Err(HostError::invalid(format!(
                "file `{name}` has the media type `{media_type}`; known are {known}"
            )));
        };
        let file = format!("{name}.{extension}");
        if !self.files.insert(file.to_lowercase()) {
            return Err(HostError::invalid(format!("file `{file}` was emitted before in this call")));
        }
        Ok(file)
    }
}

pub(crate) fn check_plain(what: &str, name: &str) -> Result<(), HostError> {
    let plain = !name.is_empty()
        && name.len() <= NAME_LIMIT
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if plain {
        return Ok(());
    }
    Err(HostError::invalid(format!(
        "`{}` is no {what}; use up to {NAME_LIMIT} letters, digits, `.`, `_` and `-`, a letter or digit first",
        shortened(name)
    )))
}

fn check_key(key: &str) -> Result<(), HostError> {
    let refused = |why: &str| {
        Err(HostError::invalid(format!("`{}` is no key of a recorded value: {why}", shortened(key))))
    };
    if key.is_empty() {
        return refused("it is empty");
    }
    if key.len() > NAME_LIMIT {
        return refused("it is too long");
    }
    if key.chars().any(char::is_control) {
        return refused("it has a control character");
    }
    if key.ends_with("::text") {
        return refused("it ends in `::text`, which is reserved");
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    const LIMIT: usize = 60;
    match name.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}..", name[..end].escape_debug()),
        None => name.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T, HostError>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn plain_and_unique_outputs_are_collected_in_order() {
        let mut collector = Collector::default();
        collector.artifact("a", "a", vec![("rows".into(), 3.into())], b"\x01").unwrap();
        collector.artifact("a", "maps", vec![], b"\x02").unwrap();
        collector.artifact("a", "a.more", vec![("rows".into(), 3.into())], b"\x03").unwrap();
        collector.scalar("a", "norm/w", f64::NAN.into()).unwrap();
        collector.file("table", "application/json", b"{}").unwrap();
        collector.file("table", "image/svg+xml", b"<svg/>").unwrap();
        let outputs = collector.outputs;
        assert_eq!(outputs.artifacts.len(), 3);
        assert_eq!(outputs.scalars[0].0, "norm/w");
        assert_eq!(outputs.files[0].0, "table.json");
        assert_eq!(outputs.files[1].0, "table.svg");
        assert_eq!(collector.refused, None);
    }

    #[test]
    fn names_that_are_not_plain_are_refused() {
        for name in ["", ".hidden", "-x", "a/b", "..", "a b", "caf\u{e9}", "a\0b", &"x".repeat(201)] {
            let mut collector = Collector::default();
            assert!(message(collector.artifact("a", name, vec![], b"")).contains("is no suffix"), "{name}");
            assert!(message(collector.file(name, "image/png", b"")).contains("is no file name"), "{name}");
        }
        for key in ["", "a\nb", "loss::text", &"k".repeat(201)] {
            let mut collector = Collector::default();
            assert!(message(collector.scalar("a", key, 1.into())).contains("is no key"), "{key}");
        }
    }

    #[test]
    fn a_second_output_of_one_name_is_refused() {
        let mut collector = Collector::default();
        collector.artifact("a", "Maps", vec![], b"").unwrap();
        assert!(message(collector.artifact("a", "maps", vec![], b"")).contains("before in this call"));
        collector.scalar("a", "norm", 1.into()).unwrap();
        assert!(message(collector.scalar("a", "norm", 2.into())).contains("`a/norm` was emitted before"));
        // The description of the artifact called as the analysis shares the analysis's keys.
        let description = vec![("norm".to_owned(), 1.into())];
        assert!(
            message(collector.artifact("a", "a", description, b"")).contains("`a/norm` was emitted before")
        );
        collector.file("f", "image/png", b"").unwrap();
        assert!(message(collector.file("F", "image/png", b"")).contains("before in this call"));
        assert_eq!(collector.refused.as_deref(), Some("artifact `maps` was emitted before in this call"));
    }

    #[test]
    fn an_analysis_cannot_write_the_metrics_of_the_node_or_its_own_provenance() {
        let mut collector = Collector::default();
        let description = vec![("loss".to_owned(), 0.into())];
        assert!(
            message(collector.artifact("a", "train", description, b"")).contains("call it `a` or `a.train`")
        );
        for key in RESERVED {
            for key in [key.to_owned(), format!("more/{key}")] {
                let mut collector = Collector::default();
                assert!(message(collector.scalar("a", &key, 1.into())).contains("is the host's"), "{key}");
                let description = vec![(key.clone(), 1.into())];
                let refused = collector.artifact("a", "a.x", description, b"");
                assert!(message(refused).contains("is the host's"), "{key}");
            }
        }
        collector.scalar("a", "plugins", 1.into()).unwrap();
    }

    #[test]
    fn a_metric_answers_once_and_a_plot_has_a_figure() {
        let mut collector = Collector::default();
        assert!(collector.missing(Kind::Metric).unwrap().contains("answered none"));
        assert!(message(collector.metric(Kind::Plot, "1")).contains("declared as plot; add `.metric()`"));
        assert!(message(collector.metric(Kind::Metric, "{")).contains("no JSON"));
        collector.metric(Kind::Metric, "{\"auc\":0.5}").unwrap();
        assert_eq!(collector.outputs.metric, Some(serde_json::json!({"auc": 0.5})));
        assert!(message(collector.metric(Kind::Metric, "1")).contains("before in this call"));
        assert_eq!(collector.missing(Kind::Metric), None);

        collector.file("numbers", "application/json", b"{}").unwrap();
        assert!(collector.missing(Kind::Plot).unwrap().contains("made no figure"));
        collector.file("curve", "image/svg+xml", b"<svg/>").unwrap();
        assert_eq!(collector.missing(Kind::Plot), None);
        assert_eq!(Collector::default().missing(Kind::Analysis), None);
    }

    #[test]
    fn an_unknown_media_type_is_refused_with_those_known() {
        let mut collector = Collector::default();
        assert!(message(collector.file("f", "image/x-thing", b"")).contains("image/svg+xml"));
    }
}
