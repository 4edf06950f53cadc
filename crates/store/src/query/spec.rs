//! What a fold has to produce, and the columns of a part that it needs for this.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Fields;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::published::{Column, PartSchema};
use crate::query::scope::RecordScope;
use crate::schema::{CHECKPOINT, EXECUTION, NAME, NONCE, PROCESS, SEQ, TAG, WRITE, WRITER};

/// What a fold produces for each node, beside its identity.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoldSpec {
    /// Columns of which the winning value is wanted: fields of the caller or reserved columns.
    pub(crate) columns: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    /// Questions whether some record of the node holds a marker.
    pub(crate) flags: Vec<Flag>,
    /// Reserved text columns of which all values are wanted.
    pub(crate) sets: Vec<&'static str>,
    /// Reserved text columns of which the value that was written last in a run is wanted.
    pub(crate) labels: Vec<&'static str>,
    /// Whether the writes of the records are wanted.
    pub(crate) written: bool,
}

/// A question about the records of a node that one of them answers with yes, or takes back with no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// The truth value is true, and no record that was written later takes it back with false.
    True(&'static str),
    /// The text is there.
    Present(&'static str),
    /// The text is this one.
    Equals(&'static str, Arc<str>),
    /// The text, a list, holds this one.
    Lists(&'static str, Arc<str>),
}

impl Flag {
    fn column(&self) -> &'static str {
        match self {
            Flag::True(column) | Flag::Present(column) | Flag::Equals(column, _) | Flag::Lists(column, _) => {
                column
            }
        }
    }
}

impl FoldSpec {
    /// Whether the rank of records among others matters.
    pub(crate) fn ranks(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The names of all columns that are decoded besides identity and stamp, each once.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        names.extend(self.columns.iter().map(|name| name.to_string()));
        names.extend(self.flags.iter().map(|flag| flag.column().to_owned()));
        names.extend(self.sets.iter().chain(&self.labels).map(|name| (*name).to_owned()));
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// The place of a folded column, which is added when it is new.
    pub(crate) fn column(&mut self, name: &str) -> usize {
        if let Some(place) = self.place(name) {
            return place;
        }
        let name: Arc<str> = Arc::from(name);
        self.columns.push(Arc::clone(&name));
        self.places.insert(name, self.columns.len() - 1);
        self.columns.len() - 1
    }

    /// The place of a folded column, if it is one.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The place of a question, which is added when it is new.
    pub(crate) fn flag(&mut self, flag: &Flag) -> usize {
        place(&mut self.flags, |known| known == flag, || flag.clone())
    }

    /// The place of a collected column, which is added when it is new.
    pub(crate) fn set(&mut self, name: &'static str) -> usize {
        place(&mut self.sets, |known| *known == name, || name)
    }

    /// The place of a column that labels runs, which is added when it is new.
    pub(crate) fn label(&mut self, name: &'static str) -> usize {
        place(&mut self.labels, |known| *known == name, || name)
    }
}

fn place<T>(list: &mut Vec<T>, is: impl FnMut(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    list.iter().position(is).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

/// Where a column stands among the decoded ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) column: Column,
}

/// The columns that a fold decodes of the parts of one schema, and nothing else.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) levels: FieldLevels,
    /// For each decoded column its place among the column chunks.
    pub(crate) leaves: Vec<usize>,
    pub(crate) name: Option<Place>,
    pub(crate) nonce: Option<Place>,
    pub(crate) seq: Option<Place>,
    pub(crate) process: Option<Place>,
    pub(crate) write: Option<Place>,
    pub(crate) writer: Option<Place>,
    pub(crate) execution: Option<Place>,
    pub(crate) tag: Option<Place>,
    pub(crate) columns: Vec<Option<Place>>,
    pub(crate) flags: Vec<Option<Place>>,
    pub(crate) sets: Vec<Option<Place>>,
    pub(crate) labels: Vec<Option<Place>>,
    /// The marker of checkpoints, where the records that take it back matter.
    pub(crate) withdrawn: Option<Place>,
}

/// What need not be decoded because it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    pub(crate) run: bool,
    pub(crate) writer: bool,
}

/// Picks columns of one schema.
struct Picker<'a> {
    schema: &'a PartSchema,
    picked: Vec<Column>,
    places: HashMap<usize, Place>,
}

impl<'a> Picker<'a> {
    fn new(schema: &'a PartSchema) -> Picker<'a> {
        Picker { schema, picked: Vec::new(), places: HashMap::new() }
    }

    fn pick(&mut self, name: &str) -> Option<Place> {
        let column = self.schema.column(name)?;
        let next = Place { index: self.picked.len(), column };
        let place = *self.places.entry(column.leaf).or_insert(next);
        if place.index == self.picked.len() {
            self.picked.push(column);
        }
        Some(place)
    }

    fn levels(&self) -> Result<(FieldLevels, Vec<usize>), ParquetError> {
        // A schema of the picked columns alone: the cost does not grow with the columns that nobody asked for.
        let types = self.picked.iter().map(|column| self.schema.parquet_type(*column)).collect();
        let root = Type::group_type_builder("picked").with_fields(types).build()?;
        let descriptor = SchemaDescriptor::new(Arc::new(root));
        let hint: Fields = self.picked.iter().map(|column| self.schema.decoded(*column)).collect();
        let levels = parquet_to_arrow_field_levels(&descriptor, ProjectionMask::all(), Some(&hint))?;
        Ok((levels, self.picked.iter().map(|column| column.leaf).collect()))
    }
}

impl Layout {
    /// The columns that `spec` and `records` need of a part.
    pub(crate) fn new(
        schema: &PartSchema,
        spec: &FoldSpec,
        records: &RecordScope,
        known: Known,
    ) -> Result<Layout, ParquetError> {
        let mut picker = Picker::new(schema);
        let (name, nonce) = if known.run { (None, None) } else { (picker.pick(NAME), picker.pick(NONCE)) };
        let seq = picker.pick(SEQ);
        let mut pick = |wanted: bool, name| if wanted { picker.pick(name) } else { None };
        let process = pick(spec.ranks() || !records.processes.is_empty(), PROCESS);
        let times = records.from.is_some() || records.until.is_some();
        let takes_back = |flag: &Flag| matches!(flag, Flag::True(column) if schema.column(column).is_some());
        let ordered = spec.flags.iter().any(takes_back);
        let write = pick(spec.ranks() || spec.written || times || ordered, WRITE);
        let writer = pick(spec.ranks() && !known.writer, WRITER);
        let execution = if records.executions.is_empty() { None } else { picker.pick(EXECUTION) };
        let tag = if records.tags.is_empty() { None } else { picker.pick(TAG) };
        let columns = spec.columns.iter().map(|column| picker.pick(column)).collect();
        let flags = spec.flags.iter().map(|flag| picker.pick(flag.column())).collect();
        let sets = spec.sets.iter().map(|set| picker.pick(set)).collect();
        let labels = spec.labels.iter().map(|label| picker.pick(label)).collect();
        let withdrawn = if spec.written { picker.pick(CHECKPOINT) } else { None };
        let (levels, leaves) = picker.levels()?;
        let layout = Layout {
            levels,
            leaves,
            name,
            nonce,
            seq,
            process,
            write,
            writer,
            execution,
            tag,
            columns,
            flags,
            sets,
            labels,
            withdrawn,
        };
        Ok(layout)
    }

    /// The identity alone, for a look at which rows of a row group are in scope.
    pub(crate) fn identity(schema: &PartSchema, known: Known) -> Result<Layout, ParquetError> {
        let mut picker = Picker::new(schema);
        let (name, nonce) = if known.run { (None, None) } else { (picker.pick(NAME), picker.pick(NONCE)) };
        let seq = picker.pick(SEQ);
        let (levels, leaves) = picker.levels()?;
        Ok(Layout {
            levels,
            leaves,
            name,
            nonce,
            seq,
            process: None,
            write: None,
            writer: None,
            execution: None,
            tag: None,
            columns: Vec::new(),
            flags: Vec::new(),
            sets: Vec::new(),
            labels: Vec::new(),
            withdrawn: None,
        })
    }
}

/// Which rows of a row group to decode; `None` are all of them.
pub(crate) type Selection = Option<RowSelection>;
