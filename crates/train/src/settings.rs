//! Resolved settings: a preset, a file and `--set` laid over the defaults, checked, digested.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap, Serializer};
use waycairn_durable::Digest;

use crate::schema::{Key, SectionFault, Value};

/// Bytes of a settings file that are read at most.
const LONGEST_FILE: u64 = 4 << 20;

/// A named set of values, laid over the defaults before anything else.
#[derive(Clone, Debug)]
pub struct Preset {
    /// The name given to `--preset`.
    pub name: &'static str,
    /// The values that differ from the defaults.
    pub values: Vec<(&'static str, Value)>,
}

/// The list of settings that one experiment has: the trainer's and its own.
#[derive(Clone, Debug)]
pub struct Schema {
    keys: BTreeMap<&'static str, Key>,
}

impl Schema {
    /// Joins the trainer's settings with those of an experiment.
    #[must_use]
    pub fn new(experiment: Vec<Key>) -> Self {
        Self::alone(trainer_keys().into_iter().chain(experiment).collect())
    }

    /// The settings of an experiment that has all of its own.
    #[must_use]
    pub fn alone(experiment: Vec<Key>) -> Self {
        Self { keys: experiment.into_iter().map(|key| (key.path(), key)).collect() }
    }

    /// Whether there is a setting of this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.keys.contains_key(path)
    }

    /// The section that a path leads into, and the rest of the path.
    fn section<'path>(&self, path: &'path str) -> Option<(&Key, &'path str)> {
        let (head, rest) = path.split_once('.')?;
        self.keys.get(head).filter(|key| key.is_section()).map(|key| (key, rest))
    }

    /// Returns every setting, sorted by path.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.values()
    }

    fn find(&self, path: &str, origin: &str) -> Result<&Key, SettingsError> {
        self.keys.get(path).ok_or_else(|| {
            let (path, origin) = (path.to_owned(), origin.to_owned());
            let inside =
                |key: &&&str| key.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'));
            let known: Vec<String> = self.keys.keys().filter(inside).map(|&key| key.to_owned()).collect();
            if !known.is_empty() {
                return SettingsError::Table { path, origin, known };
            }
            let mut paths: Vec<String> = self.keys.keys().map(|&path| path.to_owned()).collect();
            for key in self.keys.values() {
                if let Value::Json(serde_json::Value::Object(fields)) = key.default_value() {
                    paths.extend(fields.keys().map(|field| format!("{}.{field}", key.path())));
                }
            }
            let nearest = nearest(&path, paths.iter().map(String::as_str));
            SettingsError::UnknownPath { path, origin, nearest }
        })
    }
}

/// Settings in which every path of the schema has a checked value.
///
/// Serializes as the nested object whose RFC 8785 text [`Settings::digest`] digests. There is no
/// entry for the output folder, the device or the number of threads: they are arguments of a
/// launch, so they cannot make two launches different runs.
#[derive(Clone, Debug)]
pub struct Settings {
    schema: Schema,
    values: BTreeMap<&'static str, Value>,
}

impl Settings {
    /// Starts from the defaults of a schema.
    #[must_use]
    pub fn defaults(schema: Schema) -> Self {
        let values = schema.keys().map(|key| (key.path(), key.default_value().clone())).collect();
        Self { schema, values }
    }

    /// Lays a preset over these settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError::UnknownPath`] and [`SettingsError::BadValue`] for a preset that does not
    /// fit its own experiment.
    pub fn with_preset(mut self, preset: &Preset) -> Result<Self, SettingsError> {
        let origin = format!("preset {}", preset.name);
        for (path, value) in &preset.values {
            let key = self.schema.find(path, &origin)?;
            let checked = key.check(value.clone());
            self.accept(path, checked, &value.to_string(), &origin)?;
        }
        Ok(self)
    }

    /// Lays a TOML file over these settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Unreadable`], [`SettingsError::NotUtf8`] and [`SettingsError::TooLong`] when the file cannot be
    /// read, else as [`Self::with_toml`].
    pub fn with_file(self, path: &Path) -> Result<Self, SettingsError> {
        self.with_toml(&read_file(path)?, &format!("`{}`", path.display()))
    }

    /// Lays TOML text over these settings; `origin` names it in errors.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NotToml`], [`SettingsError::UnknownPath`], [`SettingsError::BadValue`].
    pub fn with_toml(self, text: &str, origin: &str) -> Result<Self, SettingsError> {
        self.with_table(&parse(text, origin)?, origin)
    }

    /// Lays a table over these settings; `origin` names it in errors.
    ///
    /// # Errors
    ///
    /// [`SettingsError::UnknownPath`], [`SettingsError::BadValue`].
    pub fn with_table(mut self, table: &toml::Table, origin: &str) -> Result<Self, SettingsError> {
        let mut leaves = Vec::new();
        flatten(&self.schema, table, "", &mut leaves);
        for (path, value) in leaves {
            let key = self.schema.find(&path, origin)?;
            if key.is_section() {
                let given = serde_json::to_value(value).unwrap_or_default();
                self.lay(&path, given, origin)?;
                continue;
            }
            let checked = key.read_toml(value);
            self.accept(&path, checked, &value.to_string(), origin)?;
        }
        Ok(self)
    }

    /// Sets one path from text, as `--set PATH=VALUE` does.
    ///
    /// # Errors
    ///
    /// [`SettingsError::UnknownPath`], [`SettingsError::BadValue`].
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), SettingsError> {
        let origin = "--set";
        if let Some((key, rest)) = self.schema.section(path) {
            let section = key.path();
            // A value as TOML has it; what is none is a text.
            let value = format!("value = {text}").parse::<toml::Table>().ok();
            let value = value.and_then(|mut table| table.remove("value"));
            let value = value.map_or_else(|| text.into(), |value| serde_json::json!(value));
            let nested = rest.rsplit('.').fold(value, |value, name| serde_json::json!({ name: value }));
            return self.lay(section, nested, origin);
        }
        let checked = self.schema.find(path, origin)?.read_text(text);
        self.accept(path, checked, text, origin)
    }

    /// Lays a table over a section.
    fn lay(&mut self, path: &str, given: serde_json::Value, origin: &str) -> Result<(), SettingsError> {
        let key = self.schema.find(path, origin)?;
        let mut whole = match self.values.get(path) {
            Some(Value::Json(whole)) => whole.clone(),
            _ => serde_json::Value::Null,
        };
        let shown = Value::Json(given.clone()).to_string();
        overlay(&mut whole, given);
        match key.read_section(&whole) {
            Some(Ok(whole)) => {
                self.values.insert(key.path(), Value::Json(whole));
                Ok(())
            }
            Some(Err(faults)) => Err(SettingsError::of_faults(faults, origin)),
            None => self.accept(path, None, &shown, origin),
        }
    }

    fn accept(
        &mut self,
        path: &str,
        checked: Option<Value>,
        given: &str,
        origin: &str,
    ) -> Result<(), SettingsError> {
        let key = self.schema.find(path, origin)?;
        let value = checked.ok_or_else(|| SettingsError::BadValue {
            path: path.to_owned(),
            given: given.to_owned(),
            accepted: key.accepted(),
            origin: origin.to_owned(),
        })?;
        self.values.insert(key.path(), value);
        Ok(())
    }

    /// Returns the value at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.values.get(path)
    }

    /// Returns the value at a path, which may lie within a section, as text.
    pub(crate) fn shown(&self, path: &str) -> Option<String> {
        self.leaves().get(path).map(Value::to_string)
    }

    /// Returns a whole number.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no whole number at this path, or it is off.
    pub fn integer(&self, path: &str) -> Result<u64, SettingsError> {
        match self.get(path) {
            Some(Value::Integer(value)) => Ok(*value),
            _ => Err(absent(path)),
        }
    }

    /// Returns a whole number as a size in memory.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no whole number at this path, or it does not
    /// fit this machine.
    pub fn size(&self, path: &str) -> Result<usize, SettingsError> {
        usize::try_from(self.integer(path)?).map_err(|_| absent(path))
    }

    /// Returns a whole number, or `None` when it is off.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no whole number at this path.
    pub fn optional_integer(&self, path: &str) -> Result<Option<u64>, SettingsError> {
        match self.get(path) {
            Some(Value::Off) => Ok(None),
            _ => self.integer(path).map(Some),
        }
    }

    /// Returns a number.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no number at this path, or it is off.
    pub fn number(&self, path: &str) -> Result<f64, SettingsError> {
        match self.get(path) {
            Some(Value::Number(value)) => Ok(*value),
            _ => Err(absent(path)),
        }
    }

    /// Returns a number, or `None` when it is off.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no number at this path.
    pub fn optional_number(&self, path: &str) -> Result<Option<f64>, SettingsError> {
        match self.get(path) {
            Some(Value::Off) => Ok(None),
            _ => self.number(path).map(Some),
        }
    }

    /// Returns a pair of numbers.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no pair at this path.
    pub fn pair(&self, path: &str) -> Result<[f64; 2], SettingsError> {
        match self.get(path) {
            Some(Value::Pair(pair)) => Ok(*pair),
            _ => Err(absent(path)),
        }
    }

    /// Returns a switch.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no switch at this path.
    pub fn switch(&self, path: &str) -> Result<bool, SettingsError> {
        match self.get(path) {
            Some(Value::Switch(value)) => Ok(*value),
            _ => Err(absent(path)),
        }
    }

    /// Returns a text, `"off"` included.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no text at this path.
    pub fn text(&self, path: &str) -> Result<&str, SettingsError> {
        match self.get(path) {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Off) => Ok(crate::schema::OFF),
            _ => Err(absent(path)),
        }
    }

    /// Returns a list of sizes.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no such list at this path, or one of them does not fit this
    /// machine.
    pub fn sizes(&self, path: &str) -> Result<Vec<usize>, SettingsError> {
        let size = |size: &serde_json::Value| usize::try_from(size.as_u64()?).ok();
        match self.get(path) {
            Some(Value::Json(serde_json::Value::Array(sizes))) => {
                sizes.iter().map(size).collect::<Option<_>>().ok_or_else(|| absent(path))
            }
            _ => Err(absent(path)),
        }
    }

    /// Returns the whole of a section.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Absent`] when the schema has no section at this path.
    pub fn section(&self, path: &str) -> Result<&serde_json::Value, SettingsError> {
        match self.get(path) {
            Some(Value::Json(section)) if section.is_object() => Ok(section),
            _ => Err(absent(path)),
        }
    }

    /// Returns the text of `config.toml`: every path, the trainer's own first, then one table for
    /// each prefix.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut open = "";
        let (sections, single): (Vec<_>, Vec<_>) = self
            .values
            .iter()
            .partition(|(path, _)| self.schema.keys.get(**path).is_some_and(Key::is_section));
        let (plain, nested): (Vec<_>, Vec<_>) = single.into_iter().partition(|(path, _)| !path.contains('.'));
        for (path, value) in plain.into_iter().chain(nested) {
            let (table, name) = path.split_once('.').unwrap_or(("", path));
            if table != open {
                let _ = writeln!(text, "\n[{table}]");
                open = table;
            }
            let value = match value {
                Value::Text(content) => toml::Value::String(content.clone()).to_string(),
                other => other.to_string(),
            };
            let _ = writeln!(text, "{name} = {value}");
        }
        for (path, value) in sections {
            let _ = writeln!(text, "\n[{path}]");
            let Value::Json(serde_json::Value::Object(fields)) = value else { continue };
            for (name, value) in fields {
                let name = toml::Value::String(name.clone());
                let _ = writeln!(text, "{name} = {}", Value::Json(value.clone()));
            }
        }
        text
    }

    /// Returns SHA-256 of the RFC 8785 text of these settings.
    ///
    /// Two launches whose settings have one digest are launches of the same run, if the run name
    /// and the base agree too.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NotCanonical`] when a value has no RFC 8785 text; checked settings do.
    pub fn digest(&self) -> Result<Digest, SettingsError> {
        let text = serde_jcs::to_vec(self).map_err(SettingsError::NotCanonical)?;
        Ok(Digest::of(&text))
    }

    /// Returns the paths at which two settings differ, with both values.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let (ours, theirs) = (self.leaves(), other.leaves());
        let paths: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let show = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
        paths
            .into_iter()
            .filter(|path| ours.get(*path) != theirs.get(*path))
            .map(|path| Difference {
                path: path.clone(),
                ours: show(ours.get(path)),
                theirs: show(theirs.get(path)),
            })
            .collect()
    }

    /// Every value by its dotted path, those within sections too.
    fn leaves(&self) -> BTreeMap<String, Value> {
        fn walk(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
            match value {
                Value::Json(serde_json::Value::Object(fields)) => {
                    for (name, value) in fields {
                        walk(&format!("{path}.{name}"), &Value::Json(value.clone()), leaves);
                    }
                }
                leaf => {
                    leaves.insert(path.to_owned(), leaf.clone());
                }
            }
        }
        let mut leaves = BTreeMap::new();
        for (path, value) in &self.values {
            walk(path, value, &mut leaves);
        }
        leaves
    }

    /// Returns the schema that these settings follow.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut nested: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
        let mut map = serializer.serialize_map(None)?;
        for (path, value) in &self.values {
            match path.split_once('.') {
                Some((table, name)) => {
                    nested.entry(table).or_default().insert(name, value);
                }
                None => map.serialize_entry(path, value)?,
            }
        }
        for (table, values) in nested {
            map.serialize_entry(table, &values)?;
        }
        map.end()
    }
}

/// One path at which two settings differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The dotted path.
    pub path: String,
    /// The value on the left, as text.
    pub ours: String,
    /// The value on the right, as text.
    pub theirs: String,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No setting has this path.
    #[error("{origin}: no setting has the path `{path}`")]
    UnknownPath {
        /// The path as given.
        path: String,
        /// Where it stands.
        origin: String,
        /// The nearest path that exists.
        nearest: Option<String>,
    },
    /// The path is that of a table of settings.
    #[error("{origin}: `{path}` is a table, not a setting")]
    Table {
        /// The path as given.
        path: String,
        /// Where it stands.
        origin: String,
        /// The settings in it.
        known: Vec<String>,
    },
    /// The value is not accepted at its path.
    #[error("{origin}: `{path}` cannot be {given}")]
    BadValue {
        /// The dotted path.
        path: String,
        /// The value as given.
        given: String,
        /// What is accepted, in words.
        accepted: String,
        /// Where it stands.
        origin: String,
    },
    /// Two settings contradict each other.
    #[error("{what}")]
    Conflict {
        /// What contradicts what.
        what: String,
        /// What to change.
        next: String,
    },
    /// No preset has this name.
    #[error("no preset is called `{name}`")]
    UnknownPreset {
        /// The name as given.
        name: String,
        /// The presets of the experiment.
        known: Vec<String>,
    },
    /// No experiment has this name.
    #[error("no experiment is called `{name}`")]
    UnknownExperiment {
        /// The name as given.
        name: String,
        /// The experiments of this binary.
        known: Vec<String>,
    },
    /// The text is not TOML.
    #[error("{origin} is not TOML at line {line}, column {column}")]
    NotToml {
        /// The file.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// The parser's message, on one line.
        what: String,
    },
    /// The settings file cannot be read.
    #[error("cannot read the settings file `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The settings file is no text.
    #[error("the settings file `{}` is not UTF-8 at byte {offset}", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Bytes before the first that is not UTF-8.
        offset: usize,
    },
    /// The settings file has no end, or is no settings file.
    #[error("the settings file `{}` has more than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes that are read at most.
        limit: u64,
    },
    /// The settings have no RFC 8785 text.
    #[error("the settings have no canonical text")]
    NotCanonical(#[source] serde_json::Error),
    /// An experiment asked for a path that its schema does not have.
    #[error("the experiment has no usable setting `{path}`")]
    Absent {
        /// The path asked for.
        path: String,
    },
}

impl SettingsError {
    /// The first of what is wrong with a section, the others named behind what is accepted.
    pub(crate) fn of_faults(faults: Vec<SectionFault>, origin: &str) -> Self {
        let mut faults = faults.into_iter();
        let SectionFault { path, given, mut accepted } = faults.next().unwrap_or_else(|| SectionFault {
            path: String::new(),
            given: String::new(),
            accepted: "something else".to_owned(),
        });
        for other in faults {
            let SectionFault { path, given, accepted: allowed } = other;
            accepted.push_str(&format!("; besides, `{path}` cannot be {given}: it takes {allowed}"));
        }
        Self::BadValue { path, given, accepted, origin: origin.to_owned() }
    }

    /// Says why, where the text does not.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Table { known, .. } => Some(format!("its settings are {}", known.join(", "))),
            Self::BadValue { accepted, .. } => Some(format!("it takes {accepted}")),
            Self::UnknownPreset { known, .. } => Some(format!("the presets are {}", known.join(", "))),
            Self::UnknownExperiment { known, .. } => {
                Some(format!("the experiments are {}", known.join(", ")))
            }
            Self::NotToml { what, .. } => Some(what.clone()),
            _ => None,
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        match self {
            Self::UnknownPath { nearest, .. } => {
                let list = "`waycairn train --show-settings` lists them";
                Some(
                    nearest
                        .as_ref()
                        .map_or_else(|| list.to_owned(), |path| format!("did you mean `{path}`? {list}")),
                )
            }
            Self::Table { known, .. } => {
                let one = known.first().map_or("", String::as_str);
                Some(format!("set one of its settings by its path, as in `--set {one}=VALUE`"))
            }
            Self::NotUtf8 { .. } => Some("convert the file to UTF-8, as TOML is written in".to_owned()),
            Self::BadValue { .. } => Some(
                "give it such a value; `waycairn train --show-settings` lists what each setting takes"
                    .to_owned(),
            ),
            Self::Conflict { next, .. } => Some(next.clone()),
            Self::UnknownPreset { .. } => Some("name one of these with `--preset`".to_owned()),
            Self::UnknownExperiment { .. } => Some("name one of these with `--experiment`".to_owned()),
            Self::NotToml { .. } => Some("correct the file there".to_owned()),
            Self::Unreadable { .. } => Some("check the path and its permissions".to_owned()),
            Self::TooLong { .. } => Some("name a TOML file, as `--show-settings` writes one".to_owned()),
            Self::NotCanonical(_) | Self::Absent { .. } => None,
        }
    }
}

/// Reads a settings file, to its end: it may be a pipe.
///
/// # Errors
///
/// [`SettingsError::Unreadable`]; [`SettingsError::NotUtf8`]; [`SettingsError::TooLong`] for what has more bytes than any settings, as a device.
pub(crate) fn read_file(path: &Path) -> Result<String, SettingsError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes));
    match read {
        Ok(read) if read as u64 <= LONGEST_FILE => String::from_utf8(bytes).map_err(|error| {
            SettingsError::NotUtf8 { path: path.to_owned(), offset: error.utf8_error().valid_up_to() }
        }),
        Ok(_) => Err(SettingsError::TooLong { path: path.to_owned(), limit: LONGEST_FILE }),
        Err(source) => Err(SettingsError::Unreadable { path: path.to_owned(), source }),
    }
}

/// Reads TOML text; `origin` names it in errors.
pub(crate) fn parse(text: &str, origin: &str) -> Result<toml::Table, SettingsError> {
    text.parse().map_err(|error| not_toml(text, origin, &error))
}

/// Says where a text stops being TOML.
fn not_toml(text: &str, origin: &str, error: &toml::de::Error) -> SettingsError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    SettingsError::NotToml {
        origin: origin.to_owned(),
        line: before.matches('\n').count() + 1,
        column: line.chars().count() + 1,
        what: error.message().lines().map(str::trim).collect::<Vec<_>>().join(", "),
    }
}

fn absent(path: &str) -> SettingsError {
    SettingsError::Absent { path: path.to_owned() }
}

/// The settings that every experiment has.
fn trainer_keys() -> Vec<Key> {
    vec![
        Key::integer("seed", 1337).help("seed of initialisation, order and dropout"),
        Key::integer("steps", 200).at_least(1).help("optimizer steps in all"),
        Key::integer("batch_size", 8).at_least(1).help("examples of one micro-batch"),
        Key::integer("accumulate", 1).at_least(1).help("micro-batches of one step"),
        Key::number("learning_rate", 2e-3).between(0.0, f64::MAX).help("peak learning rate"),
        Key::number("min_learning_rate", 2e-4).between(0.0, f64::MAX).help("where the cosine ends"),
        Key::integer("warmup", 20).help("steps of linear warm-up"),
        Key::integer("decay_steps", 1).at_least(1).off().help("step at which the cosine ends; off: the last"),
        Key::pair("betas", [0.9, 0.99]).help("decay of the optimizer's two moments"),
        Key::number("weight_decay", 0.1).between(0.0, f64::MAX).help("decoupled decay of matrices"),
        Key::number("clip", 1.0)
            .between(f64::MIN_POSITIVE, f64::MAX)
            .or_off()
            .help("largest global gradient norm"),
        Key::choice("schedule", "cosine", &["constant", "cosine"]).help("learning rate after warm-up"),
        Key::integer("report_every", 1).at_least(1).help("steps between records of train/*"),
        Key::integer("eval_every", 20).at_least(1).or_off().help("steps between validations"),
        Key::integer("eval_batches", 8).at_least(1).help("batches of one validation"),
        Key::integer("checkpoint_every", 20).at_least(1).or_off().help("steps between checkpoints"),
        Key::integer("keep_last", 1).at_least(1).off().help("newest checkpoints to keep; all three off: all"),
        Key::integer("keep_every", 1).at_least(1).off().help("keep the checkpoints of every such step"),
        Key::best("keep_best").help("best checkpoints to keep"),
        Key::choice("optimizer", "adamw", &["adamw"]).help("update rule"),
        Key::choice("precision", "f32", &["f32"]).help("number format of the weights"),
        Key::choice("on_nonfinite", "stop", &["stop", "skip"]).help("what a loss that is not finite does"),
        Key::choice("early_stop", "off", &[]).or_off().help("stop before the last step"),
        Key::choice("branch_data", "continue", &["continue", "restart"]).help("data stream of a branch"),
        Key::choice("mixture", "off", &[]).or_off().help("several sources with rates"),
        Key::text("data.source", "embedded").help("a text file, or `embedded`"),
        Key::choice("data.tokenizer", "character", &["character", "byte"]).help("vocabulary"),
        Key::integer("data.context", 64).at_least(1).help("tokens of one example"),
        Key::choice("data.order", "shuffled", &["shuffled", "random"]).help("order of examples"),
        Key::number("data.split", 0.9).between(0.0, 1.0).help("share of the text that trains"),
    ]
}

/// Lays a JSON value over another: tables are joined, anything else is replaced.
fn overlay(under: &mut serde_json::Value, over: serde_json::Value) {
    match (under, over) {
        (serde_json::Value::Object(under), serde_json::Value::Object(over)) => {
            for (name, value) in over {
                overlay(under.entry(name).or_insert(serde_json::Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Collects the leaves of a TOML table under their dotted paths; a section is one.
fn flatten<'a>(
    schema: &Schema,
    table: &'a toml::Table,
    prefix: &str,
    leaves: &mut Vec<(String, &'a toml::Value)>,
) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let section = schema.keys.get(path.as_str()).is_some_and(Key::is_section);
        match value {
            toml::Value::Table(inner) if !section => flatten(schema, inner, &path, leaves),
            leaf => leaves.push((path, leaf)),
        }
    }
}

/// Returns the candidate nearest to a mistyped name, if one is near enough to suggest.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    // `lr` stands for `learning_rate`, which few changed letters lead to.
    let initials =
        |path: &str| last(path).split('_').filter_map(|word| word.chars().next()).collect::<String>();
    let abbreviated = |candidate: &&str| name.chars().count() > 1 && initials(candidate) == name;
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(candidate) = candidates.iter().copied().find(abbreviated) {
        return Some(candidate.to_owned());
    }
    candidates
        .into_iter()
        .map(|candidate| {
            let whole = strsim::damerau_levenshtein(name, candidate);
            let tail = strsim::damerau_levenshtein(&last(name), &last(candidate));
            (whole.min(tail + 1), candidate)
        })
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3).max(2))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
#[path = "settings/tests.rs"]
mod tests;
