//! The analysis settings of one profile: which metrics and plots, from which libraries, with which settings.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use waycairn_analysis_host::{Discovery, ForeignAnalysis, ForeignProduct, Found, Kind, Library, discover};
use waycairn_durable::Digest;
use waycairn_train::nearest;

use crate::error::SettingsError;
use crate::tree::{Document, Tree};

/// The name of the analysis settings' file.
pub const ANALYSIS_FILE: &str = "settings_analysis.toml";

/// Keys of the analysis settings that are the study's own.
const RESERVED: [&str; 3] = ["plugins", "metrics", "plots"];

/// The analysis settings of one profile, resolved and checked, with the libraries that they name.
#[derive(Debug)]
pub struct AnalysisSettings {
    pub(crate) document: Document,
    /// What the file says of the profile, with the line of each setting.
    tree: Tree,
    libraries: Vec<Found>,
    /// The metrics and plots that are wanted, in order; each is `(library, analysis)`.
    wanted: Vec<(usize, usize)>,
    /// Resolved settings of each wanted analysis, by name.
    pub(crate) own: BTreeMap<String, Value>,
    /// Everything, sections of libraries included: what products select from.
    pub(crate) complete: Value,
}

impl AnalysisSettings {
    /// Reads the settings file of a folder, finds the plugins and resolves one profile. A profile that only the training
    /// settings have is the base here.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], for a metric that no library has among them.
    pub fn read(folder: &Path, profile: Option<&str>, places: &Discovery) -> Result<Self, SettingsError> {
        Self::resolve(Document::of_folder(folder, ANALYSIS_FILE)?, profile, places)
    }

    fn resolve(document: Document, profile: Option<&str>, places: &Discovery) -> Result<Self, SettingsError> {
        let mut tree = match profile {
            Some(name) if !document.has_profile(name) => document.base(),
            profile => document.resolve(profile)?.0,
        };
        if let Some(choice) = tree.choices().first() {
            return Err(bad(
                &document,
                choice.place.line,
                &choice.path.join("."),
                "a choice",
                "one value: only training settings hold choices",
            ));
        }
        let mut list = |key: &str| names(&document, key, tree.take(key));
        let plugins = list("plugins")?;
        let wanted_names: Vec<(Kind, String, usize)> = list("metrics")?
            .into_iter()
            .map(|(name, line)| (Kind::Metric, name, line))
            .chain(list("plots")?.into_iter().map(|(name, line)| (Kind::Plot, name, line)))
            .collect();
        let mut places = places.clone();
        for (plugin, _) in &plugins {
            // As `output` does, a path counts from the folder that the program was started in: a copy of the file means the same.
            let path = Path::new(".").join(plugin);
            if path.is_dir() { places.dirs.push(path) } else { places.files.push(path) }
        }
        let libraries = discover(&places);
        if let Some(refused) = libraries.iter().find(|found| found.named && found.result.is_err())
            && let Err(error) = &refused.result
        {
            return Err(SettingsError::Plugin { path: document.path.clone(), what: error.to_string() });
        }
        let mut wanted = Vec::new();
        let mut ids: Vec<&str> = Vec::new();
        for (kind, name, line) in &wanted_names {
            wanted.push(find(&document, &libraries, *kind, name, *line)?);
            let own = name.rsplit_once('#').map_or(name.as_str(), |(_, own)| own);
            let id = wanted.last().and_then(|(library, index): &(usize, usize)| {
                let library = libraries.get(*library)?.result.as_ref().ok()?;
                Some(library.analyses().get(*index)?.id())
            });
            if ids.iter().any(|known| Some(*known) == id) {
                let key = if *kind == Kind::Metric { "metrics" } else { "plots" };
                let accepted = "names that differ, among metrics and plots of different libraries";
                return Err(bad(&document, *line, key, &format!("{own:?} twice"), accepted));
            }
            ids.extend(id);
        }
        let own = BTreeMap::new();
        let mut settings = Self { document, tree, libraries, wanted, own, complete: Value::Null };
        settings.fill()?;
        Ok(settings)
    }

    /// Lays the file's sections over the defaults of the libraries and of the wanted analyses.
    fn fill(&mut self) -> Result<(), SettingsError> {
        let tree = &self.tree;
        let given = serde_json::to_value(tree.chosen(&[], 0)).unwrap_or_default();
        let mut given = match given {
            Value::Object(sections) => sections,
            _ => Map::new(),
        };
        let mut complete = Map::new();
        let told = |error: waycairn_analysis_host::SettingsError, section: &str| SettingsError::Section {
            path: self.document.path.clone(),
            line: tree.find(section).line,
            what: error.to_string(),
        };
        let mut known: Vec<String> = RESERVED.map(str::to_owned).into();
        for library in self.used() {
            let Some(sections) = library.settings().as_object() else { continue };
            known.extend(sections.keys().cloned());
            let mut own = Map::new();
            for section in sections.keys() {
                own.extend(given.get(section).map(|value| (section.clone(), value.clone())));
            }
            let first = own.keys().next().cloned().unwrap_or_default();
            let resolved =
                library.resolve_settings(&Value::Object(own)).map_err(|error| told(error, &first))?;
            if let Value::Object(resolved) = resolved {
                complete.extend(resolved);
            }
        }
        for section in complete.keys() {
            given.remove(section);
        }
        let mut own = BTreeMap::new();
        for analysis in self.analyses() {
            let name = &analysis.declaration().name;
            known.push(name.clone());
            // A metric and a plot of one name share their section.
            let section = given.get(name).cloned().unwrap_or(Value::Null);
            let resolved = analysis.resolve_settings(&section).map_err(|error| told(error, name))?;
            complete.entry(name.clone()).or_insert_with(|| resolved.clone());
            own.insert(analysis.id().to_owned(), resolved);
        }
        for analysis in self.analyses() {
            given.remove(&analysis.declaration().name);
        }
        // A section of what is not asked for this time is no mistake.
        let others: Vec<String> = self
            .libraries()
            .flat_map(|library| {
                let sections = library.settings().as_object().into_iter().flat_map(Map::keys).cloned();
                let analyses = library.analyses().iter().map(|known| known.declaration().name.clone());
                sections.chain(analyses).collect::<Vec<_>>()
            })
            .collect();
        for section in others {
            given.remove(&section);
        }
        if let Some(unknown) = given.keys().next() {
            return Err(SettingsError::UnknownKey {
                path: self.document.path.clone(),
                line: tree.find(unknown).line,
                key: unknown.clone(),
                nearest: nearest(unknown, known.iter().map(String::as_str)),
                hint: format!("there are {}", known.join(", ")),
            });
        }
        // What is wanted decides what a product is for: one may say that it cannot be had without a setting.
        for (list, kind) in [("metrics", Kind::Metric), ("plots", Kind::Plot)] {
            let of = self.analyses().map(ForeignAnalysis::declaration).filter(|known| known.kind == kind);
            complete.insert(list.to_owned(), of.map(|known| Value::from(known.name.as_str())).collect());
        }
        self.own = own;
        self.complete = Value::Object(complete);
        Ok(())
    }

    /// What a product says of settings of this file, one a line, with the file and their lines; `None` for a text that
    /// does not begin with the path of one.
    pub(crate) fn refused(&self, text: &str) -> Option<SettingsError> {
        let line = |fault: &str| {
            let (path, _) = fault.strip_prefix('`')?.split_once('`')?;
            let section = path.split('.').next()?;
            self.complete.get(section)?.is_object().then(|| self.tree.find(path).line)
        };
        let mut faults = text.lines();
        let first = faults.next()?;
        let (first_line, mut what) = (line(first)?, first.to_owned());
        for fault in faults {
            let at = line(fault).map_or_else(String::new, |line| format!("line {line}: "));
            what.push_str(&format!("\n{at}{fault}"));
        }
        Some(SettingsError::Setting { path: self.document.path.clone(), line: first_line, what })
    }

    /// The metrics and plots that are wanted, in the order of the file, metrics first.
    pub fn analyses(&self) -> impl Iterator<Item = &ForeignAnalysis> {
        self.wanted.iter().filter_map(|(library, index)| {
            let library = self.libraries.get(*library)?.result.as_ref().ok()?;
            library.analyses().get(*index)
        })
    }

    /// The libraries that are found.
    fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.iter().filter_map(|found| found.result.as_ref().ok())
    }

    /// The libraries that a wanted analysis or a product that it needs is of.
    fn used(&self) -> Vec<&Library> {
        let mut products: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = self
            .analyses()
            .flat_map(|known| known.declaration().needs.products.iter())
            .map(String::as_str)
            .collect();
        while let Some(name) = open.pop() {
            if !products.contains(&name) {
                products.push(name);
                let product = self
                    .libraries()
                    .flat_map(Library::products)
                    .find(|known| known.declaration().name == name);
                open.extend(
                    product
                        .into_iter()
                        .flat_map(|known| known.declaration().products.iter())
                        .map(String::as_str),
                );
            }
        }
        let of_wanted = |library: &&Library| {
            let analyses = self.analyses().any(|known| known.path() == library.path());
            analyses
                || library
                    .products()
                    .iter()
                    .any(|known| products.contains(&known.declaration().name.as_str()))
        };
        self.libraries().filter(of_wanted).collect()
    }

    /// Every product of a name.
    pub(crate) fn products(&self, name: &str) -> Vec<&ForeignProduct> {
        let all = self.libraries().flat_map(Library::products);
        all.filter(|known| known.declaration().name == name).collect()
    }

    /// What tells these settings from others: all values, and the code of the plugins.
    pub(crate) fn identity(&self) -> String {
        let code: Vec<String> = self.used().iter().map(|library| library.digest().to_string()).collect();
        let names: Vec<&String> = self.own.keys().collect();
        Digest::of(format!("{}\n{names:?}\n{code:?}", self.complete).as_bytes()).to_string()
    }

    /// The names of all products, for a message.
    pub(crate) fn product_names(&self) -> Vec<String> {
        self.libraries().flat_map(Library::products).map(|known| known.declaration().name.clone()).collect()
    }
}

/// Reads a list of texts; each with its line.
fn names(document: &Document, key: &str, tree: Option<Tree>) -> Result<Vec<(String, usize)>, SettingsError> {
    let Some(tree) = tree else { return Ok(Vec::new()) };
    let line = tree.place().line;
    let wrong = || bad(document, line, key, &tree.shown(), "a list of texts, each once");
    let Tree::Value(toml::Value::Array(items), _) = &tree else { return Err(wrong()) };
    let mut names: Vec<(String, usize)> = Vec::new();
    for item in items {
        let name = item.as_str().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        if names.iter().any(|(known, _)| known == name) {
            return Err(wrong());
        }
        names.push((name.to_owned(), line));
    }
    Ok(names)
}

/// Finds a metric or plot by `name` or `file#name`.
fn find(
    document: &Document,
    libraries: &[Found],
    kind: Kind,
    name: &str,
    line: usize,
) -> Result<(usize, usize), SettingsError> {
    let (file, plain) = name.rsplit_once('#').map_or((None, name), |(file, plain)| (Some(file), plain));
    let mut found = Vec::new();
    let mut known = Vec::new();
    for (place, library) in libraries.iter().enumerate() {
        let Ok(opened) = &library.result else { continue };
        let fits = file.is_none_or(|file| library.path.ends_with(file));
        for (index, analysis) in opened.analyses().iter().enumerate() {
            let declared = analysis.declaration();
            if declared.kind != kind {
                continue;
            }
            if fits && declared.name == plain {
                found.push((place, index));
            }
            known.push(declared.name.clone());
        }
    }
    let key = if kind == Kind::Metric { "metrics" } else { "plots" };
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let near = nearest(plain, known.iter().map(String::as_str));
            let accepted = match (near, known.as_slice()) {
                (Some(near), _) => format!("names of {key}; did you mean `{near}`?"),
                (None, []) => format!("names of {key}, and no plugin that was found has one"),
                (None, known) => known.join(", "),
            };
            Err(bad(document, line, key, &format!("{name:?}"), &accepted))
        }
        several => {
            let files: Vec<String> = several
                .iter()
                .filter_map(|(place, _)| Some(format!("`{}#{plain}`", libraries.get(*place)?.path.display())))
                .collect();
            Err(bad(
                document,
                line,
                key,
                &format!("{name:?}, which several plugins have"),
                &files.join(" or "),
            ))
        }
    }
}

fn bad(document: &Document, line: usize, key: &str, given: &str, accepted: &str) -> SettingsError {
    SettingsError::bad_value(&document.path, line, key, given, accepted)
}
