//! The training settings of one profile: what is run, where, and with which settings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use waycairn_durable::Digest;
use waycairn_train::{
    Cohort, Description, Experiments, Settings, SettingsLayer, TrainError, TrainRequest, describe, nearest,
};

use crate::error::{SettingsError, StudyError};
use crate::tree::{Document, Place, Tree};

/// The name of the training settings' file.
pub const TRAINING_FILE: &str = "settings_training.toml";

/// Keys of the training settings that are not the experiment's.
const RESERVED: [&str; 5] = ["experiment", "preset", "output", "cohort", "runtime"];

/// How much of a digest stands in a folder's name.
const SHORT: usize = 12;

/// Replicas of one configuration, at most: more would be known of a mistake after the memory is gone.
const MOST_REPLICAS: u64 = 10_000;

/// The longest value that stands in a variant's name.
const LONGEST_VALUE: usize = 24;

/// The training settings of one profile, resolved and checked.
#[derive(Clone, Debug)]
pub struct Training {
    pub(crate) document: Document,
    pub(crate) profile: Option<String>,
    pub(crate) experiment: String,
    pub(crate) output: PathBuf,
    pub(crate) runtime: Runtime,
    /// The members of the cohort, in order.
    pub(crate) members: Vec<Member>,
    /// What they differ in besides their seeds, and the line that says so.
    cohort: Option<(Cohort, usize)>,
    /// The baseline, and one for each further option of each choice.
    pub(crate) configurations: Vec<Configuration>,
}

/// A member of the cohort: what it changes of a configuration's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// `r0`, or `uniform-r0` where members differ in more than their seeds.
    pub(crate) name: String,
    /// How much larger its seed is.
    replica: u64,
    /// A setting of the experiment, and this member's value of it.
    value: Option<(&'static str, String)>,
}

/// How a launch computes. None of it changes what a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// The device.
    pub device: String,
    /// Threads that compute; one a core if none is named.
    pub threads: Option<usize>,
}

/// One set of settings, that every member of the cohort runs with.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// `baseline`, or the changed setting and its value, as a folder's name.
    pub name: String,
    /// What differs from the baseline.
    pub change: Option<Change>,
    /// The settings, before what a member changes.
    pub settings: Settings,
    /// What it was read from: the experiment's own settings and its preset.
    pub(crate) table: Table,
    pub(crate) preset: Option<String>,
    /// Tells it from the other configurations.
    digest: Digest,
}

/// The setting that a configuration changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Its dotted path.
    pub path: String,
    /// Its value.
    pub value: serde_json::Value,
}

/// One run: a configuration and a member.
#[derive(Clone, Debug)]
pub struct Job {
    /// The configuration's place in the list.
    pub configuration: usize,
    /// The member's name.
    pub member: String,
    /// The complete settings.
    pub settings: Settings,
    /// The name of its nodes: `<experiment>.<variant>.<member>`.
    pub name: String,
    /// Its folder in the root: `runs/<variant>-<hash>/<member>-<hash>`.
    pub folder: PathBuf,
    /// What tells it from every other job; it names the folder.
    pub digest: Digest,
    pub(crate) request: TrainRequest,
}

impl Configuration {
    /// `baseline`, or `<path>=<value>`, for people.
    #[must_use]
    pub fn label(&self) -> String {
        self.change
            .as_ref()
            .map_or_else(|| self.name.clone(), |change| format!("{}={}", change.path, change.value))
    }
}

impl Training {
    /// Reads the settings file of a folder and resolves one profile of it.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn read(
        experiments: &Experiments,
        folder: &Path,
        profile: Option<&str>,
    ) -> Result<Self, SettingsError> {
        Self::resolve(experiments, Document::of_folder(folder, TRAINING_FILE)?, profile)
    }

    pub(crate) fn resolve(
        experiments: &Experiments,
        document: Document,
        profile: Option<&str>,
    ) -> Result<Self, SettingsError> {
        let (mut tree, profile) = document.resolve(profile)?;
        let reader = Reader { path: &document.path };
        for choice in tree.choices() {
            let head = choice.path.first().copied().unwrap_or_default();
            if RESERVED.contains(&head) && head != "preset" {
                let accepted = match head {
                    "runtime" => {
                        "one value: how a launch computes is the same for all its runs; use separate launches"
                    }
                    "cohort" => "one value: the cohort is repeated in every configuration",
                    _ => "one value: use separate launches",
                };
                return Err(reader.bad(choice.place, &choice.path.join("."), "a choice", accepted));
            }
        }
        let names = experiments.names();
        let known = names.join(" or ");
        let experiment = match tree.take("experiment") {
            None => names.first().copied().unwrap_or_default().to_owned(),
            Some(tree) => {
                let name = reader.text("experiment", &tree, &known)?;
                if !names.contains(&name.as_str()) {
                    return Err(reader.bad(tree.place(), "experiment", &format!("{name:?}"), &known));
                }
                name
            }
        };
        let output = match tree.take("output") {
            None => format!("outputs/{}", profile.as_deref().unwrap_or("default")),
            Some(tree) => reader.text("output", &tree, "the path of a folder")?,
        };
        let runtime = reader.runtime(tree.take("runtime"))?;
        let cohort = experiments.cohort(&experiment).map(|cohort| {
            let line = tree.find(&format!("cohort.{}", cohort.list)).line;
            (cohort, line)
        });
        let members = reader.members(tree.take("cohort"), cohort.as_ref().map(|(cohort, _)| cohort))?;
        if let Some((cohort, _)) = &cohort
            && let Some(own) = tree.take(cohort.setting)
        {
            let accepted = format!("nothing in a study: each member of `cohort.{}` has its own", cohort.list);
            return Err(reader.bad(own.place(), cohort.setting, &own.shown(), &accepted));
        }
        let mut training = Self {
            profile,
            experiment,
            output: PathBuf::from(output),
            runtime,
            members,
            cohort,
            configurations: Vec::new(),
            document: document.clone(),
        };
        training.expand(experiments, &tree)?;
        Ok(training)
    }

    /// Makes the baseline and one configuration for each further option of each choice, in the order of the file.
    fn expand(&mut self, experiments: &Experiments, tree: &Tree) -> Result<(), SettingsError> {
        let baseline = self.configuration(experiments, tree, None)?;
        self.configurations.push(baseline);
        for choice in tree.choices() {
            for (option, value) in choice.options.iter().enumerate().skip(1) {
                let path = choice.path.join(".");
                let value = serde_json::to_value(value).unwrap_or_default();
                let change = (choice.path.as_slice(), option, Change { path, value });
                let next = self.configuration(experiments, tree, Some(change))?;
                // What is written twice, or means the same, is run once.
                if self.configurations.iter().all(|known| known.digest != next.digest) {
                    self.configurations.push(next);
                }
            }
        }
        Ok(())
    }

    fn configuration(
        &self,
        experiments: &Experiments,
        tree: &Tree,
        change: Option<(&[&str], usize, Change)>,
    ) -> Result<Configuration, SettingsError> {
        let (path, option, change) = match change {
            Some((path, option, change)) => (path, option, Some(change)),
            None => (&[][..], 0, None),
        };
        let name = change.as_ref().map_or_else(|| "baseline".to_owned(), variant);
        let mut table = match tree.chosen(path, option) {
            Value::Table(table) => table,
            _ => Table::new(),
        };
        let label = change.as_ref().map_or_else(
            || "the baseline is refused".to_owned(),
            |change| format!("`{} = {}` is refused", change.path, change.value),
        );
        let preset = match table.remove("preset") {
            None => None,
            Some(Value::String(preset)) => Some(preset),
            Some(other) => {
                let reader = Reader { path: &self.document.path };
                return Err(reader.bad(tree.find("preset"), "preset", &other.to_string(), "a preset's name"));
            }
        };
        let of_member = |member: Option<&Member>| {
            let mut request = self.request(&table, preset.as_deref());
            request.sets.extend(member.and_then(Member::set));
            waycairn_train::settings(experiments, &request).map_err(|source| {
                let changed = change.as_ref().map(|change| change.path.as_str());
                self.refused(tree, label.clone(), changed, source)
            })
        };
        // Those of the first member, so that what no member has is not asked of the settings.
        let settings = of_member(self.members.first())?;
        // What another one is refused for is told with its line as well.
        for others in self.members.windows(2).filter(|two| two[0].value != two[1].value) {
            of_member(others.last())?;
        }
        let digest = settings
            .digest()
            .map_err(|error| self.refused(tree, name.clone(), None, TrainError::from(error)))?;
        let digest = identity(&[&self.experiment, &digest.to_string()]);
        Ok(Configuration { name, change, settings, table, preset, digest })
    }

    /// An error of the experiment, with the line of what it speaks of.
    fn refused(
        &self,
        tree: &Tree,
        configuration: String,
        changed: Option<&str>,
        source: TrainError,
    ) -> SettingsError {
        use waycairn_train::SettingsError as Inner;
        let path = self.document.path.clone();
        match source {
            TrainError::Settings(Inner::UnknownPath { path: key, nearest, .. }) => {
                SettingsError::UnknownKey {
                    line: tree.find(&key).line,
                    nearest: misplaced(&key).or(nearest).or_else(|| waycairn_train::nearest(&key, RESERVED)),
                    path,
                    hint: format!(
                        "`waycairn train --show-settings --experiment {}` lists the experiment's settings",
                        self.experiment
                    ),
                    key,
                }
            }
            TrainError::Settings(Inner::BadValue { path: mut key, given, mut accepted, .. }) => {
                let mut line = tree.find(&key).line;
                // A member's own value stands in the list of the cohort.
                if let Some((cohort, of_list)) =
                    self.cohort.as_ref().filter(|(known, _)| known.setting == key)
                {
                    (key, line) = (format!("cohort.{}", cohort.list), *of_list);
                }
                if given.starts_with('[') {
                    accepted.push_str("; options to try one by one are written `{ choice = [..] }`");
                }
                SettingsError::BadValue { line, path, key, given, accepted }
            }
            source => {
                let line = tree.find(changed.unwrap_or_default()).line;
                SettingsError::Refused { path, line, configuration, source: Box::new(source) }
            }
        }
    }

    fn request(&self, table: &Table, preset: Option<&str>) -> TrainRequest {
        let origin = format!("`{}`", self.document.path.display());
        TrainRequest {
            experiment: Some(self.experiment.clone()),
            preset: preset.map(str::to_owned),
            settings: Some(SettingsLayer::Table { table: table.clone(), origin }),
            device: self.runtime.device.clone(),
            threads: self.runtime.threads,
            ..TrainRequest::new(&self.output)
        }
    }

    /// Every run, in the order of configurations and members, with what its experiment says of it. The data is read.
    ///
    /// # Errors
    ///
    /// [`StudyError::Train`] when a member's seed is no setting, and for data that cannot be read.
    pub fn jobs(&self, experiments: &Experiments) -> Result<Vec<(Job, Description)>, StudyError> {
        let mut jobs = Vec::with_capacity(self.configurations.len() * self.members.len());
        for (index, configuration) in self.configurations.iter().enumerate() {
            // That of the first member, whose settings are the configuration's.
            let mut of_configuration = None;
            for member in &self.members {
                let (name, settings, request) = self.request_of(experiments, configuration, member)?;
                let description = describe(experiments, &request)?;
                let digest = decides(&self.experiment, &description);
                let of_configuration = *of_configuration.get_or_insert(digest);
                let member = member.name.clone();
                let digest = identity(&[&of_configuration.to_string(), &member, &digest.to_string()]);
                let short = |digest: &Digest| digest.to_string()[..SHORT].to_owned();
                let folder = Path::new("runs")
                    .join(format!("{}-{}", configuration.name, short(&of_configuration)))
                    .join(format!("{member}-{}", short(&digest)));
                let job = Job { configuration: index, member, settings, name, folder, digest, request };
                jobs.push((job, description));
            }
        }
        Ok(jobs)
    }

    /// The name of a member's nodes, its settings, and what is asked of the experiment.
    fn request_of(
        &self,
        experiments: &Experiments,
        configuration: &Configuration,
        member: &Member,
    ) -> Result<(String, Settings, TrainRequest), StudyError> {
        let name = format!("{}.{}.{}", self.experiment, configuration.name, member.name);
        let mut request = self.request(&configuration.table, configuration.preset.as_deref());
        // Replica 0 is the run that the settings describe; each further one has a seed of its own.
        let seed = configuration.settings.integer("seed").map_err(TrainError::from)? + member.replica;
        request.sets = vec![("seed".to_owned(), seed.to_string())];
        request.sets.extend(member.set());
        request.name = Some(name.clone());
        let settings = waycairn_train::settings(experiments, &request)?;
        Ok((name, settings, request))
    }

    /// The same with another output root than the file names.
    #[must_use]
    pub fn with_output(self, output: PathBuf) -> Self {
        Self { output, ..self }
    }

    /// The output root.
    #[must_use]
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The profile, where the file has one that was chosen.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The experiment's name.
    #[must_use]
    pub fn experiment(&self) -> &str {
        &self.experiment
    }

    /// The configurations, the baseline first.
    #[must_use]
    pub fn configurations(&self) -> &[Configuration] {
        &self.configurations
    }
}

/// What was probably meant by a setting that stands in the wrong table, or by a choice under another word.
fn misplaced(key: &str) -> Option<String> {
    let (above, word) = key.rsplit_once('.').unwrap_or(("", key));
    if !above.is_empty() && nearest(word, ["choice"]).is_some() {
        return Some(format!("{above}.choice"));
    }
    let tables =
        [("cohort", ["replicas", "priors"].as_slice()), ("runtime", &["device", "cpu_threads", "parallel"])];
    let table = tables.into_iter().find(|(_, keys)| keys.contains(&key))?;
    Some(format!("{}.{key}", table.0))
}

impl Member {
    /// Its own value of a setting, as `--set` takes it.
    fn set(&self) -> Option<(String, String)> {
        self.value.as_ref().map(|(path, value)| ((*path).to_owned(), value.clone()))
    }
}

/// A digest of all that decides the result of a run but the code and the machine: experiment, settings, and the data's
/// content.
fn decides(experiment: &str, description: &Description) -> Digest {
    let of = serde_json::json!([experiment, description.decides, description.data]);
    Digest::of(of.to_string().as_bytes())
}

/// Reads the settings that are not the experiment's.
struct Reader<'file> {
    path: &'file Path,
}

impl Reader<'_> {
    fn bad(&self, place: Place, key: &str, given: &str, accepted: &str) -> SettingsError {
        SettingsError::bad_value(self.path, place.line, key, given, accepted)
    }

    fn text(&self, key: &str, tree: &Tree, accepted: &str) -> Result<String, SettingsError> {
        match tree {
            Tree::Value(Value::String(text), _) if !text.is_empty() => Ok(text.clone()),
            other => Err(self.bad(other.place(), key, &other.shown(), accepted)),
        }
    }

    fn whole(&self, key: &str, tree: &Tree, accepted: &str) -> Result<usize, SettingsError> {
        let whole = match tree {
            Tree::Value(Value::Integer(value), _) => usize::try_from(*value).ok().filter(|value| *value > 0),
            _ => None,
        };
        whole.ok_or_else(|| self.bad(tree.place(), key, &tree.shown(), accepted))
    }

    /// The entries of a reserved table; what is none of `known` is refused.
    fn entries(
        &self,
        table: &str,
        tree: Option<Tree>,
        known: &[&str],
    ) -> Result<Vec<(String, Tree)>, SettingsError> {
        let entries = match tree {
            None => return Ok(Vec::new()),
            Some(Tree::Table(entries, _)) => entries,
            Some(other) => return Err(self.bad(other.place(), table, &other.shown(), "a table")),
        };
        if let Some((key, tree)) = entries.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(SettingsError::UnknownKey {
                path: self.path.to_owned(),
                line: tree.place().line,
                key: format!("{table}.{key}"),
                nearest: nearest(key, known.iter().copied()).map(|near| format!("{table}.{near}")),
                hint: format!("`{table}` has {}", known.join(", ")),
            });
        }
        Ok(entries.into_iter().collect())
    }

    fn runtime(&self, tree: Option<Tree>) -> Result<Runtime, SettingsError> {
        let mut runtime = Runtime { device: "auto".to_owned(), threads: None };
        for (key, tree) in self.entries("runtime", tree, &["device", "cpu_threads", "parallel"])? {
            let path = format!("runtime.{key}");
            match key.as_str() {
                "device" => runtime.device = self.text(&path, &tree, "the name of a device, as `cpu`")?,
                "cpu_threads" => runtime.threads = Some(self.whole(&path, &tree, "a whole number from 1")?),
                _ => {
                    let mode = self.text(&path, &tree, "\"jobs\"")?;
                    if mode != "jobs" {
                        return Err(self.bad(tree.place(), &path, &format!("{mode:?}"), "\"jobs\""));
                    }
                }
            }
        }
        Ok(runtime)
    }

    /// Every replica of each value that members differ in.
    fn members(&self, tree: Option<Tree>, cohort: Option<&Cohort>) -> Result<Vec<Member>, SettingsError> {
        let known: Vec<&str> = ["replicas"].into_iter().chain(cohort.map(|own| own.list)).collect();
        let (mut replicas, mut values) = (1, cohort.map(|own| own.default.clone()));
        for (key, tree) in self.entries("cohort", tree, &known)? {
            let path = format!("cohort.{key}");
            if key == "replicas" {
                let accepted = format!("a whole number of 1 to {MOST_REPLICAS}");
                replicas = self.whole(&path, &tree, &accepted)? as u64;
                if replicas > MOST_REPLICAS {
                    return Err(self.bad(tree.place(), &path, &tree.shown(), &accepted));
                }
            } else {
                values = Some(self.names(&path, &tree)?);
            }
        }
        let replica = |replica: u64, value: Option<&String>| Member {
            name: value.map_or_else(|| format!("r{replica}"), |value| format!("{value}-r{replica}")),
            replica,
            value: cohort.map(|own| own.setting).zip(value.cloned()),
        };
        Ok(match &values {
            None => (0..replicas).map(|number| replica(number, None)).collect(),
            Some(values) => {
                let of = |value| (0..replicas).map(move |number| (number, value));
                values.iter().flat_map(of).map(|(number, value)| replica(number, Some(value))).collect()
            }
        })
    }

    /// A list of names, which stand in the names of nodes and folders.
    fn names(&self, key: &str, tree: &Tree) -> Result<Vec<String>, SettingsError> {
        let wrong = || {
            let accepted = "a list of names, at least one and each once, of letters, digits, `_` and `-`";
            self.bad(tree.place(), key, &tree.shown(), accepted)
        };
        let Tree::Value(Value::Array(items), _) = tree else { return Err(wrong()) };
        let plain = |name: &&str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            !name.is_empty() && name.len() <= LONGEST_VALUE && name.chars().all(plain)
        };
        let mut names: Vec<String> = Vec::new();
        for item in items {
            let name = item.as_str().filter(plain).ok_or_else(wrong)?.to_owned();
            if names.contains(&name) {
                return Err(wrong());
            }
            names.push(name);
        }
        if names.is_empty() { Err(wrong()) } else { Ok(names) }
    }
}

/// The name of a variant: the changed path and, where that is short, the value. A folder's name on every system.
fn variant(change: &Change) -> String {
    let plain = |text: &str| -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        text.chars().map(|c| if plain(c) { c } else { '_' }).collect()
    };
    let path = change.path.replace('.', "_");
    let value = match &change.value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(_) => String::new(),
        other => other.to_string(),
    };
    let value = plain(&value);
    let value = value.trim_matches('_');
    if value.is_empty() || value.len() > LONGEST_VALUE {
        // Two long values must not share a name.
        let digest = Digest::of(change.value.to_string().as_bytes()).to_string();
        return format!("{}-{}", plain(&path), &digest[..8]);
    }
    format!("{}-{value}", plain(&path))
}

/// SHA-256 of texts that hold no line breaks, each on its line.
pub(crate) fn identity(parts: &[&str]) -> Digest {
    Digest::of(parts.join("\n").as_bytes())
}

#[cfg(test)]
#[path = "training/tests.rs"]
mod tests;
