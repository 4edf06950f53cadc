//! A settings file as it was written: tables and values, and the line of each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};
use waycairn_durable::read_file;
use waycairn_train::nearest;

use crate::error::SettingsError;

/// The key of a table that lists options.
const CHOICE: &str = "choice";

/// A settings file: what is common to its profiles, and each profile.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    /// The bytes as they were read: a launch that succeeds copies them.
    pub(crate) text: String,
    default_profile: Option<String>,
    base: Tree,
    profiles: BTreeMap<String, Tree>,
}

/// Where something stands in a file: its byte, which orders, and its line from 1, which is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) byte: usize,
    pub(crate) line: usize,
}

/// A table, a value, or several options for one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Table(BTreeMap<String, Tree>, Place),
    Value(Value, Place),
    Choice(Vec<Value>, Place),
}

/// Several options for one value.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'tree> {
    pub(crate) path: Vec<&'tree str>,
    pub(crate) options: &'tree [Value],
    pub(crate) place: Place,
}

/// A settings file of a folder; of this folder by its name alone.
pub(crate) fn settings_path(folder: &Path, name: &str) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) }
}

impl Document {
    /// Reads the settings file of a folder.
    pub(crate) fn of_folder(folder: &Path, name: &str) -> Result<Self, SettingsError> {
        let path = settings_path(folder, name);
        if path.exists() { Self::read(&path) } else { Err(SettingsError::Absent { path }) }
    }

    fn read(path: &Path) -> Result<Self, SettingsError> {
        let bytes =
            read_file(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        let text = String::from_utf8(bytes).map_err(|error| SettingsError::NotText {
            path: path.to_owned(),
            byte: error.utf8_error().valid_up_to(),
        })?;
        Self::parse(path, text)
    }

    pub(crate) fn parse(path: &Path, text: String) -> Result<Self, SettingsError> {
        let lines = Lines::new(&text);
        let broken = |error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            let what: Vec<&str> = error.message().lines().map(str::trim).collect();
            let (line, column) = lines.line_and_column(&text, at);
            SettingsError::NotToml { path: path.to_owned(), line, column, what: what.join(", ") }
        };
        let spans = DeTable::parse(&text).map_err(broken)?;
        let values: Table = text.parse().map_err(broken)?;
        let file = File { path, lines: &lines };
        let mut default_profile = None;
        let mut base = Tree::Table(BTreeMap::new(), Place { byte: 0, line: 1 });
        let mut profiles = BTreeMap::new();
        for (key, span) in spans.get_ref() {
            let place = file.place(&key.span());
            let name = key.get_ref().as_ref();
            let Some(value) = values.get(name) else { continue };
            match (name, value) {
                ("default_profile", Value::String(profile)) => default_profile = Some(profile.clone()),
                ("default_profile", other) => {
                    return Err(file.bad(place, name, &other.to_string(), "the name of a profile"));
                }
                ("base", _) => base = file.table(name, value, span, place)?,
                ("profiles", Value::Table(each)) => {
                    let Some(spans) = span.get_ref().as_table() else { continue };
                    for (key, span) in spans {
                        let name = key.get_ref().as_ref();
                        let Some(value) = each.get(name) else { continue };
                        let path = format!("profiles.{name}");
                        let profile = file.table(&path, value, span, file.place(&key.span()))?;
                        profiles.insert(name.to_owned(), profile);
                    }
                }
                ("profiles", other) => {
                    return Err(file.bad(place, name, &other.to_string(), "tables, `[profiles.NAME]` each"));
                }
                _ => {
                    return Err(SettingsError::UnknownKey {
                        path: path.to_owned(),
                        line: place.line,
                        key: name.to_owned(),
                        nearest: nearest(name, ["default_profile", "base", "profiles"]),
                        hint: "settings stand in `[base]` and `[profiles.NAME]`".to_owned(),
                    });
                }
            }
        }
        Ok(Self { path: path.to_owned(), text, default_profile, base, profiles })
    }

    pub(crate) fn base(&self) -> Tree {
        self.base.clone()
    }

    pub(crate) fn has_profile(&self, name: &str) -> bool {
        self.profiles.contains_key(name)
    }

    /// The base with a profile laid over it, and the profile's name: the one asked for, or the default one, or the
    /// base alone where the file names none.
    pub(crate) fn resolve(&self, profile: Option<&str>) -> Result<(Tree, Option<String>), SettingsError> {
        let Some(name) = profile.or(self.default_profile.as_deref()) else {
            return Ok((self.base.clone(), None));
        };
        let overlay = self.profiles.get(name).ok_or_else(|| SettingsError::UnknownProfile {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        })?;
        Ok((self.base.clone().overlaid(overlay.clone()), Some(name.to_owned())))
    }
}

impl Tree {
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Table(_, place) | Self::Value(_, place) | Self::Choice(_, place) => *place,
        }
    }

    /// Lays another tree over this one: tables are joined, anything else is replaced.
    fn overlaid(self, over: Self) -> Self {
        match (self, over) {
            (Self::Table(mut under, _), Self::Table(over, place)) => {
                for (key, tree) in over {
                    let joined = match under.remove(&key) {
                        Some(old) => old.overlaid(tree),
                        None => tree,
                    };
                    under.insert(key, joined);
                }
                Self::Table(under, place)
            }
            (_, over) => over,
        }
    }

    /// What was written, for a message.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Table(..) => "a table".to_owned(),
            Self::Value(value, _) => value.to_string(),
            Self::Choice(..) => "a choice".to_owned(),
        }
    }

    /// Takes an entry out of a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        match self {
            Self::Table(entries, _) => entries.remove(key),
            _ => None,
        }
    }

    /// Finds the place of a dotted path, or of what is written nearest above it.
    pub(crate) fn find(&self, path: &str) -> Place {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        match self {
            Self::Table(entries, place) => {
                // One of a list stands where the list does.
                let list = || entries.get(head.split('[').next()?);
                entries.get(head).or_else(list).map_or(*place, |tree| tree.find(rest))
            }
            _ => self.place(),
        }
    }

    /// Every choice, in the order of the file.
    pub(crate) fn choices(&self) -> Vec<Choice<'_>> {
        fn walk<'tree>(tree: &'tree Tree, path: &[&'tree str], found: &mut Vec<Choice<'tree>>) {
            match tree {
                Tree::Table(entries, _) => {
                    for (key, tree) in entries {
                        let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
                        walk(tree, &path, found);
                    }
                }
                Tree::Choice(options, place) => {
                    found.push(Choice { path: path.to_owned(), options, place: *place });
                }
                Tree::Value(..) => {}
            }
        }
        let mut found = Vec::new();
        walk(self, &[], &mut found);
        found.sort_by_key(|choice| choice.place);
        found
    }

    /// The plain value in which each choice is its first option, but for the one at `path`.
    pub(crate) fn chosen(&self, path: &[&str], option: usize) -> Value {
        match self {
            Self::Table(entries, _) => {
                let (head, rest) =
                    path.split_first().map_or((None, path), |(head, rest)| (Some(*head), rest));
                let chosen = |(key, tree): (&String, &Self)| {
                    let (rest, option) =
                        if Some(key.as_str()) == head { (rest, option) } else { (&[][..], 0) };
                    (key.clone(), tree.chosen(rest, option))
                };
                Value::Table(entries.iter().map(chosen).collect())
            }
            Self::Value(value, _) => value.clone(),
            // A choice has one option at least: an empty one is refused when it is read.
            Self::Choice(options, _) => {
                options.get(option).or(options.first()).cloned().unwrap_or(Value::Boolean(false))
            }
        }
    }
}

/// The file that a tree is read from, for places and errors.
struct File<'file> {
    path: &'file Path,
    lines: &'file Lines,
}

impl File<'_> {
    fn place(&self, span: &Range<usize>) -> Place {
        Place { byte: span.start, line: self.lines.line(span.start) }
    }

    fn bad(&self, place: Place, key: &str, given: &str, accepted: &str) -> SettingsError {
        SettingsError::bad_value(self.path, place.line, key, given, accepted)
    }

    fn table(
        &self,
        path: &str,
        value: &Value,
        span: &Spanned<DeValue<'_>>,
        place: Place,
    ) -> Result<Tree, SettingsError> {
        match self.tree(path, value, span, place)? {
            table @ Tree::Table(..) => Ok(table),
            Tree::Choice(_, place) => Err(self.bad(place, path, "a choice", "a table")),
            Tree::Value(value, place) => Err(self.bad(place, path, &value.to_string(), "a table")),
        }
    }

    fn tree(
        &self,
        path: &str,
        value: &Value,
        span: &Spanned<DeValue<'_>>,
        place: Place,
    ) -> Result<Tree, SettingsError> {
        let (Value::Table(values), Some(spans)) = (value, span.get_ref().as_table()) else {
            self.without_choice(path, value, place)?;
            return Ok(Tree::Value(value.clone(), place));
        };
        if let Some(options) = values.get(CHOICE) {
            return self.choice(path, values, options, place);
        }
        let mut entries = BTreeMap::new();
        for (key, span) in spans {
            let name = key.get_ref().as_ref();
            if let Some(value) = values.get(name) {
                let path = format!("{path}.{name}");
                entries.insert(name.to_owned(), self.tree(&path, value, span, self.place(&key.span()))?);
            }
        }
        Ok(Tree::Table(entries, place))
    }

    fn choice(
        &self,
        path: &str,
        table: &Table,
        options: &Value,
        place: Place,
    ) -> Result<Tree, SettingsError> {
        let accepted =
            "`{ choice = [first, second] }`, with one option at least and nothing else in the table";
        match options {
            Value::Array(options) if !options.is_empty() && table.len() == 1 => {
                for option in options {
                    self.without_choice(path, option, place)?;
                }
                Ok(Tree::Choice(options.clone(), place))
            }
            _ => Err(self.bad(place, path, &Value::Table(table.clone()).to_string(), accepted)),
        }
    }

    /// Refuses a choice inside a list or an option.
    fn without_choice(&self, path: &str, value: &Value, place: Place) -> Result<(), SettingsError> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.without_choice(path, item, place)),
            Value::Table(table) if table.contains_key(CHOICE) => Err(self.bad(
                place,
                path,
                "a list or an option with a `choice` inside",
                "a `choice` of whole values: `{ choice = [[1, 2], [3]] }`",
            )),
            Value::Table(table) => {
                table.values().try_for_each(|value| self.without_choice(path, value, place))
            }
            _ => Ok(()),
        }
    }
}

/// Where each line of a text begins.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after).collect())
    }

    fn line(&self, byte: usize) -> usize {
        self.0.partition_point(|begin| *begin <= byte)
    }

    fn line_and_column(&self, text: &str, byte: usize) -> (usize, usize) {
        let line = self.line(byte);
        let begin = self.0.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = text.get(begin..byte.min(text.len())).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

#[cfg(test)]
#[path = "tree/tests.rs"]
mod tests;
