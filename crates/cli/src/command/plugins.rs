//! `waycairn plugins`: what the libraries that would be found offer, and what is wrong with those that would not.

use std::path::{Path, PathBuf};

use clap::Args;
use waycairn_analysis_host::{Discovery, Found, Refused, discover};
use waycairn_train::{ExperimentDescription, Port, Signature};

use crate::context::Context;
use crate::error::{CliError, one_line};
use crate::failure;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Where plugins are looked for.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PluginPlaces {
    /// Load this plugin library; may be repeated
    #[arg(long = "plugin", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Look for plugins in this folder too; may be repeated
    #[arg(long = "plugin-dir", value_name = "FOLDER")]
    pub(super) folders: Vec<PathBuf>,
}

/// List what all plugins that are found offer, with settings and defaults, and why others are refused
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn plugins
  waycairn plugins --plugin target/release/libwaycairn_summary.so --format json
  waycairn plugins --functions

Plugins are looked for in this order: --plugin, --plugin-dir, the folders of $WAYCAIRN_PLUGIN_PATH, `plugins`
in the output root, and `waycairn/plugins` in your data folder ($XDG_DATA_HOME, else ~/.local/share). A plugin
is native code that runs with your rights: only what you name or place there is loaded.

Listed are the analyses, metrics, plots and products of each library, and the sections of settings that it adds to
a study. SETTINGS are defaults as lines of TOML: those of a section, and of a metric or a plot, can be copied under
[base] of settings_analysis.toml; --set of `analyze --at` takes those of an analysis without its name.

--functions lists what a plugin may call of an experiment, with the inputs and outputs of each.")]
pub(crate) struct PluginsArgs {
    /// List the functions of the experiments that plugins may call instead
    #[arg(long, conflicts_with_all = ["files", "folders"])]
    pub(super) functions: bool,
    #[command(flatten)]
    pub(super) places: PluginPlaces,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

/// The stable shape of a row.
const FIXED: &[&str] =
    &["name", "version", "api", "file", "sha256", "status", "reason", "kind", "description", "settings"];

/// The stable shape of a function.
const FUNCTION: &[&str] = &["experiment", "function", "inputs", "outputs", "description"];

impl PluginPlaces {
    /// Whether no place is named.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty()
    }

    /// Everything that is to be looked at, in the documented order.
    pub(super) fn discovery(&self, context: &Context) -> Discovery {
        let mut default_dirs = context.environment.plugin_path.clone();
        default_dirs.push(context.root_to_read().path.join("plugins"));
        default_dirs.extend(context.environment.data.iter().map(|data| data.join("waycairn/plugins")));
        Discovery { files: self.files.clone(), dirs: self.folders.clone(), default_dirs }
    }
}

/// The error of a command that found no analysis at all: where it looked, and how to come by one.
pub(super) fn nothing_found(what: &str, discovery: &Discovery, context: &Context) -> CliError {
    let places = discovery.files.iter().chain(&discovery.dirs).chain(&discovery.default_dirs);
    let places: Vec<String> =
        places.map(|place| format!("`{}`", printable(&place.to_string_lossy()))).collect();
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = format!("target/release/{prefix}waycairn_summary{suffix}");
    let folder = context.root_to_read().path.join("plugins");
    CliError::new("not_found", what)
        .why(format!("nothing that can be used was found in {}", places.join(", ")))
        .next(format!(
            "build the plugins with `cargo build --release`, then add `--plugin {library}` or copy it to `{}`",
            printable(&folder.to_string_lossy())
        ))
}

pub(crate) fn run(args: &PluginsArgs, context: &Context) -> Result<(), CliError> {
    if args.functions {
        return functions(&args.output, context);
    }
    let discovery = args.places.discovery(context);
    let found = discover(&discovery);
    let mut out = args.output.open(&context.terminal)?;
    let rows: Vec<Row> = found.iter().flat_map(rows_of).collect();
    match args.output.format() {
        Format::Table => {
            let mut grid = Grid::new([
                "name",
                "kind",
                "version",
                "interface",
                "status",
                "file",
                "what it does, or why not",
            ]);
            for row in rows {
                let said = Value::text(row.said());
                grid.push([
                    row.name,
                    row.kind,
                    row.version,
                    row.api,
                    Value::from(row.status),
                    row.file,
                    said,
                ]);
            }
            if grid.is_empty() {
                let nothing = nothing_found("no plugins", &discovery, context);
                context.note(&nothing.in_one_line());
            } else {
                context.table(&grid, "", &mut out)?;
            }
        }
        format => {
            rows::write(&mut out, format, &Columns::fixed(FIXED), rows.into_iter().map(Row::values))?;
        }
    }
    out.finish()?;
    // A library that is refused is an answer; a folder that cannot be looked into leaves the answer open.
    let unseen = found.iter().filter(|found| args.places.folders.contains(&found.path));
    match unseen.filter_map(|found| found.result.as_ref().err()).next() {
        Some(refused) => Err(failure::plugin(refused)),
        None => Ok(()),
    }
}

/// Lists what plugins may call of the experiments.
fn functions(output: &RowOutput, context: &Context) -> Result<(), CliError> {
    let rows = function_rows(&context.experiments.describe());
    let mut out = output.open(&context.terminal)?;
    match output.format() {
        Format::Table => {
            let mut grid = Grid::new(FUNCTION.iter().copied());
            rows.into_iter().for_each(|row| grid.push(row));
            if grid.is_empty() {
                context.note("no experiment has functions that plugins may call");
            } else {
                context.table(&grid, "", &mut out)?;
            }
        }
        format => rows::write(&mut out, format, &Columns::fixed(FUNCTION), rows.into_iter())?,
    }
    out.finish()
}

fn function_rows(experiments: &[ExperimentDescription]) -> Vec<Vec<Value>> {
    let ports = |ports: &[Port]| {
        let ports: Vec<String> = ports.iter().map(Port::to_string).collect();
        Value::Text(ports.join(", "))
    };
    let of = |experiment: &ExperimentDescription| -> Vec<Vec<Value>> {
        let row = |function: &Signature| {
            let (experiment, name) = (Value::from(experiment.name), Value::from(function.name));
            let (inputs, outputs) = (ports(&function.inputs), ports(&function.outputs));
            vec![experiment, name, inputs, outputs, Value::from(function.description)]
        };
        experiment.functions.iter().map(row).collect()
    };
    experiments.iter().flat_map(of).collect()
}

/// Defaults as lines of TOML, each by its dotted path.
fn lines(path: &str, default: &serde_json::Value) -> Vec<String> {
    match default.as_object() {
        Some(table) if !table.is_empty() => {
            table.iter().flat_map(|(name, default)| lines(&format!("{path}.{name}"), default)).collect()
        }
        _ => vec![format!("{path} = {default}")],
    }
}

/// One thing that a library offers, or something that it does not.
struct Row {
    name: Value,
    version: Value,
    api: Value,
    file: Value,
    sha256: Value,
    status: &'static str,
    reason: Option<String>,
    kind: Value,
    description: Option<String>,
    settings: Vec<String>,
}

impl Row {
    /// The stable shape of a row.
    fn values(self) -> Vec<Value> {
        let (status, reason) = (Value::from(self.status), Value::text(self.reason));
        let (description, settings) = (Value::text(self.description), Value::list(self.settings));
        vec![
            self.name,
            self.version,
            self.api,
            self.file,
            self.sha256,
            status,
            reason,
            self.kind,
            description,
            settings,
        ]
    }

    /// What a table says of it: why it is refused, else what it does and its settings.
    fn said(&self) -> Option<String> {
        let settings = (!self.settings.is_empty()).then(|| format!("settings: {}", self.settings.join(", ")));
        let said: Vec<String> = self.description.clone().into_iter().chain(settings).collect();
        self.reason.clone().or_else(|| (!said.is_empty()).then(|| said.join("; ")))
    }
}

/// The rows of one file: its analyses, its products and its sections of settings, then what of it cannot be used; or the
/// file itself where it is refused.
fn rows_of(found: &Found) -> Vec<Row> {
    let refused = |path: &Path, reason: String| Row {
        name: Value::Null,
        version: Value::Null,
        api: Value::Null,
        file: Value::Text(path.display().to_string()),
        sha256: Value::Null,
        status: "refused",
        reason: Some(one_line(&reason)),
        kind: Value::Null,
        description: None,
        settings: Vec::new(),
    };
    let library = match &found.result {
        Ok(library) => library,
        Err(error) => return vec![refused(&found.path, error.to_string())],
    };
    let offered = |name: &str, kind: &str| Row {
        name: Value::from(name),
        version: Value::Null,
        api: Value::from(library.api_version()),
        file: Value::Text(library.path().display().to_string()),
        sha256: Value::Text(library.digest().to_string()),
        status: "loaded",
        reason: None,
        kind: Value::from(kind),
        description: None,
        settings: Vec::new(),
    };
    let mut rows = Vec::new();
    for analysis in library.analyses() {
        let declared = analysis.declaration();
        let settings = declared.settings.as_object().filter(|settings| !settings.is_empty());
        rows.push(Row {
            version: Value::from(declared.version.as_str()),
            description: Some(declared.description.clone()),
            settings: settings.map_or_else(Vec::new, |_| lines(&declared.name, &declared.settings)),
            ..offered(&declared.name, declared.kind.as_str())
        });
    }
    for product in library.products() {
        let declared = product.declaration();
        rows.push(Row {
            version: Value::Text(declared.version.to_string()),
            description: Some(declared.description.clone()),
            ..offered(&declared.name, "product")
        });
    }
    for (section, defaults) in library.settings().as_object().into_iter().flatten() {
        rows.push(Row { settings: lines(section, defaults), ..offered(section, "settings") });
    }
    let unusable = |kind: &'static str| {
        move |unusable: &Refused| Row {
            name: Value::Null,
            status: "refused",
            reason: Some(one_line(&unusable.error.to_string())),
            ..offered("", kind)
        }
    };
    rows.extend(library.refused().iter().map(unusable("analysis")));
    rows.extend(library.refused_products().iter().map(unusable("product")));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::written;

    #[test]
    fn cli_1_a_row_of_functions() {
        let rows = function_rows(&waycairn_train::experiments![waycairn_train::Gpt].describe());
        assert_eq!(
            written(&Columns::fixed(FUNCTION), rows[..1].to_vec(), rows::json),
            "[\n{\"experiment\":\"gpt\",\"function\":\"loss\",\"inputs\":\"tokens: tokens [rows, time], targets: tokens \
             [rows, time]\",\"outputs\":\"loss: float32 [rows, time]\",\"description\":\"cross-entropy of each target, in \
             nats\"}\n]\n"
        );
    }

    #[test]
    fn cli_1_a_row_of_plugins() {
        let found = discover(&Discovery { files: vec!["no-such.so".into()], ..Discovery::default() });
        let rows = found.iter().flat_map(rows_of).map(Row::values).collect();
        assert_eq!(
            written(&Columns::fixed(FIXED), rows, rows::json),
            "[\n{\"name\":null,\"version\":null,\"api\":null,\"file\":\"no-such.so\",\"sha256\":null,\
             \"status\":\"refused\",\"reason\":\"no such file: `no-such.so`\",\"kind\":null,\"description\":null,\
             \"settings\":[]}\n]\n"
        );
    }

    #[test]
    fn defaults_are_lines_of_toml() {
        let defaults = serde_json::json!({"rows": 0, "plot": {"title": "x", "bins": [1, 2]}, "more": {}});
        assert_eq!(
            lines("own", &defaults),
            ["own.more = {}", "own.plot.bins = [1,2]", "own.plot.title = \"x\"", "own.rows = 0"]
        );
    }
}
