//! `waycairn show`: everything that is known of one node.

use std::borrow::Cow;
use std::path::Path;

use clap::Args;
use waycairn_dag::Node;
use waycairn_store::NodeView;
use waycairn_train::Settings;

use crate::args::NODE_HELP;
use crate::command::settings;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Shape, ShapeOutput};
use crate::table::{MISSING, cell, printable};
use crate::terminal::Terminal;
use crate::value::Value;

/// Show one node: fields, parents, children, checkpoint, settings, artifacts, files
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn show shakespeare:999
  waycairn show latest --format json

The settings are those that the run was trained with, as a checkpoint of it has them; the table shows what differs from
the defaults, and `settings` in JSON holds all of them, by path, or null where there is no checkpoint.

{NODE_HELP}"))]
pub(crate) struct ShowArgs {
    /// The node
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let node = context.resolve(&reader, &args.node)?;
    let view = reader.node(&node).map_err(failure::query)?;
    let view = view.ok_or_else(|| failure::unknown(&args.node, reader.root()))?;
    let settings = settings::recorded(&view, &reader, context);
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&json(&view, settings.as_ref())?)?,
        Shape::Table => {
            let terminal = context.looks(&out);
            out.text(&text(&view, settings.as_ref(), &terminal))?;
        }
    }
    out.finish()
}

/// The stable shape of a node.
fn json(view: &NodeView, settings: Option<&Settings>) -> Result<Value, CliError> {
    let node = &view.node;
    let addresses = |nodes: &[Node]| Value::list(nodes.iter().map(|node| node.address().to_string()));
    let fields = view.fields.iter().map(|(key, value)| (Cow::Owned(key.clone()), Value::from(value)));
    let names = |files: &[(String, u64)]| Value::list(files.iter().map(|(name, _)| name.as_str()));
    let blob = view.blob.as_deref().map(absolute).transpose()?;
    let checkpoint = view.checkpoint.as_ref().map_or(Value::Null, |checkpoint| {
        Value::Object(vec![
            ("complete".into(), Value::Bool(checkpoint.complete)),
            ("bytes".into(), Value::Count(checkpoint.bytes)),
            ("files".into(), names(&checkpoint.files)),
        ])
    });
    let artifacts = view.artifacts.iter().map(|artifact| {
        Value::Object(vec![
            ("suffix".into(), Value::from(artifact.suffix.as_str())),
            ("bytes".into(), Value::Count(artifact.bytes)),
            ("written".into(), Value::time(artifact.written)),
            ("plugin".into(), Value::text(artifact.plugin.as_deref())),
            ("plugin_version".into(), Value::text(artifact.plugin_version.as_deref())),
        ])
    });
    Ok(Value::Object(vec![
        ("node".into(), Value::Text(node.address().to_string())),
        ("name".into(), Value::from(node.name())),
        ("nonce".into(), Value::from(node.nonce())),
        ("seq".into(), Value::Count(node.seq())),
        ("parents".into(), addresses(&view.parents)),
        ("children".into(), addresses(&view.children)),
        ("fields".into(), Value::Object(fields.collect())),
        ("blob".into(), Value::text(blob)),
        ("checkpoint".into(), checkpoint),
        ("artifacts".into(), Value::list(artifacts)),
        ("files".into(), names(&view.files)),
        ("settings".into(), settings.map_or(Value::Null, all)),
    ]))
}

/// All settings, by path.
fn all(settings: &Settings) -> Value {
    let pairs = settings::in_order(settings).map(|(key, value)| (key.path().into(), settings::plain(value)));
    Value::Object(pairs.collect())
}

/// The path from the root of the file system, whatever folder the command was started in.
fn absolute(path: &Path) -> Result<String, CliError> {
    match std::path::absolute(path) {
        Ok(path) => Ok(path.display().to_string()),
        Err(error) => Err(CliError::of("io", error).next("start the command in a folder that exists")),
    }
}

/// The node as people read it: what it is, then what was measured, then what is attached.
fn text(view: &NodeView, settings: Option<&Settings>, terminal: &Terminal) -> String {
    let nodes = |nodes: &[Node]| match nodes {
        [] => MISSING.to_owned(),
        nodes => nodes.iter().map(|node| printable(&node.to_string())).collect::<Vec<_>>().join(", "),
    };
    let mut facts = Section::default();
    facts.line("node", &printable(&view.node.to_string()));
    facts.line("address", view.node.address().as_str());
    if let Some(written) = view.written {
        facts.line("written", &format!("{} UTC", number::moment(written)));
    }
    if view.finished {
        facts.line("end", "the run finished here");
    }
    facts.line("parents", &nodes(&view.parents));
    facts.line("children", &nodes(&view.children));
    let checkpoint = view.checkpoint.as_ref().map(|checkpoint| {
        let files = plural(checkpoint.files.len() as u64, "file");
        let state = if checkpoint.complete { "complete" } else { "INCOMPLETE" };
        let folder = view.blob.as_deref().map(|blob| blob.join("checkpoint"));
        if checkpoint.files.is_empty() && folder.is_none_or(|folder| !folder.exists()) {
            return "MISSING: it is recorded, and its folder is gone".to_owned();
        }
        format!("{state}, {} in {files}", number::bytes(checkpoint.bytes))
    });
    let none = if view.checkpoint_withdrawn { "withdrawn" } else { MISSING };
    facts.line("checkpoint", checkpoint.as_deref().unwrap_or(none));
    if let Some(blob) = &view.blob {
        facts.line("folder", &printable(&blob.display().to_string()));
    }
    let mut text = facts.draw();

    let mut fields = Section::default();
    for (key, value) in &view.fields {
        fields.line(&printable(key), &cell(&Value::from(value)));
    }
    fields.under("fields", terminal, &mut text);

    let mut changed = Section::default();
    for (key, value) in settings.into_iter().flat_map(settings::in_order) {
        if !settings::is_default(key, value) {
            changed.line(
                key.path(),
                &format!(
                    "{}  (default {})",
                    settings::written(value),
                    settings::written(key.default_value())
                ),
            );
        }
    }
    if settings.is_some() && changed.lines.is_empty() {
        changed.line("none", "");
    }
    changed.under("settings other than the defaults (all of them: --format json)", terminal, &mut text);

    let mut artifacts = Section::default();
    for artifact in &view.artifacts {
        let mut said = number::bytes(artifact.bytes);
        if let Some(written) = artifact.written {
            said.push_str(&format!("  {}", number::moment(written)));
        }
        if let Some(plugin) = &artifact.plugin {
            let version = artifact.plugin_version.as_deref().unwrap_or_default();
            said.push_str(&format!("  by {} {version}", printable(plugin)));
        }
        artifacts.line(&printable(&artifact.suffix), said.trim_end());
    }
    artifacts.under("artifacts", terminal, &mut text);

    let mut files = Section::default();
    let of_checkpoint = view.checkpoint.iter().flat_map(|checkpoint| &checkpoint.files);
    for (name, bytes) in of_checkpoint {
        files.line(&format!("checkpoint/{}", printable(name)), &number::bytes(*bytes));
    }
    for (name, bytes) in &view.files {
        files.line(&printable(name), &number::bytes(*bytes));
    }
    files.under("files", terminal, &mut text);
    text
}

/// Lines of a name and what there is to say, aligned.
#[derive(Default)]
struct Section {
    lines: Vec<(String, String)>,
}

impl Section {
    fn line(&mut self, name: &str, said: &str) {
        self.lines.push((name.to_owned(), said.to_owned()));
    }

    fn draw(&self) -> String {
        let width = self.lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line = |name: &str, said: &str| format!("{name:<width$}  {said}").trim_end().to_owned() + "\n";
        self.lines.iter().map(|(name, said)| line(name, said)).collect()
    }

    /// Adds the lines, indented below a title, to a text; nothing where there are none.
    fn under(&self, title: &str, terminal: &Terminal, text: &mut String) {
        if self.lines.is_empty() {
            return;
        }
        text.push_str(&format!("\n{}\n", terminal.strong(title)));
        for line in self.draw().lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use waycairn_store::{ArtifactInfo, CheckpointInfo, Scalar};

    use super::*;

    fn view() -> NodeView {
        let node = |seq| Node::new("tiny", "0123456789abcdef", seq).unwrap();
        NodeView {
            node: node(19),
            parents: vec![node(18)],
            children: Vec::new(),
            children_incomplete: false,
            fields: [("seq".to_owned(), Scalar::Float(f64::INFINITY))].into(),
            written: Some(0),
            blob: Some("/root/blob".into()),
            checkpoint: Some(CheckpointInfo {
                complete: true,
                bytes: 1_200,
                files: vec![("model.safetensors".to_owned(), 1_200)],
            }),
            checkpoint_withdrawn: false,
            artifacts: vec![ArtifactInfo {
                suffix: "summary".to_owned(),
                bytes: 10,
                written: Some(0),
                plugin: Some("summary".to_owned()),
                plugin_version: None,
            }],
            files: vec![("summary.norms.svg".to_owned(), 5)],
            finished: true,
        }
    }

    #[test]
    fn a_recorded_checkpoint_without_a_folder_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let blob = Some(folder.path().to_owned());
        let gone = NodeView { checkpoint: Some(CheckpointInfo::default()), blob, ..view() };
        let said = text(&gone, None, &Terminal::plain());
        assert!(said.contains("checkpoint  MISSING: it is recorded, and its folder is gone\n"), "{said}");
        std::fs::create_dir(folder.path().join("checkpoint")).unwrap();
        let said = text(&gone, None, &Terminal::plain());
        assert!(said.contains("checkpoint  INCOMPLETE, "), "{said}");
    }

    #[test]
    fn a_withdrawn_checkpoint_is_told_from_one_that_never_was() {
        let without = NodeView { checkpoint: None, ..view() };
        assert!(text(&without, None, &Terminal::plain()).contains("checkpoint  -\n"));
        let withdrawn = NodeView { checkpoint_withdrawn: true, ..without };
        assert!(text(&withdrawn, None, &Terminal::plain()).contains("checkpoint  withdrawn\n"));
    }

    #[test]
    fn cli_1_a_node() {
        assert_eq!(
            serde_json::to_string(&json(&view(), None).unwrap()).unwrap(),
            r#"{"node":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE5","name":"tiny","nonce":"0123456789abcdef","seq":19,"#
                .to_owned()
                + r#""parents":["dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE4"],"children":[],"#
                + r#""fields":{"seq":{"$float":"Infinity"}},"blob":"/root/blob","#
                + r#""checkpoint":{"complete":true,"bytes":1200,"files":["model.safetensors"]},"#
                + r#""artifacts":[{"suffix":"summary","bytes":10,"written":"1970-01-01T00:00:00.000000Z","#
                + r#""plugin":"summary","plugin_version":null}],"files":["summary.norms.svg"],"settings":null}"#
        );
    }

    #[test]
    fn the_settings_of_the_run_are_shown_where_they_differ() {
        let keys = waycairn_train::experiments![waycairn_train::Gpt].describe().remove(0).keys;
        let mut settings = Settings::defaults(waycairn_train::Schema::new(keys));
        settings.set("data.source", "embedded:0123").unwrap();
        let said = text(&view(), Some(&settings), &Terminal::plain());
        assert!(said.contains("--format json)\n  none\n\n"), "{said}");
        settings.set("learning_rate", "0.5").unwrap();
        let said = text(&view(), Some(&settings), &Terminal::plain());
        let title = "\nsettings other than the defaults (all of them: --format json)\n";
        assert!(said.contains(&format!("{title}  learning_rate  0.5  (default 0.002)\n\n")), "{said}");
        let json = serde_json::to_value(json(&view(), Some(&settings)).unwrap()).unwrap();
        assert_eq!(json["settings"]["learning_rate"], 0.5);
        assert_eq!(json["settings"]["model.tied"], true);
    }

    #[test]
    fn the_text_has_its_parts_in_order() {
        let text = text(&view(), None, &Terminal::plain());
        let expected = "\
node        tiny@0123456789abcdef:19
address     dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE5
written     1970-01-01 00:00:00 UTC
end         the run finished here
parents     tiny@0123456789abcdef:18
children    -
checkpoint  complete, 1.20 kB in 1 file
folder      /root/blob

fields
  seq  Infinity

artifacts
  summary  10 B  1970-01-01 00:00:00  by summary

files
  checkpoint/model.safetensors  1.20 kB
  summary.norms.svg             5 B
";
        assert_eq!(text, expected);
    }
}
