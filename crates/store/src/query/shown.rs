//! How folded columns are shown as Arrow columns.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringBuilder,
    TimestampNanosecondArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::listing::FieldTable;
use crate::published::RunKey;
use crate::query::Diagnostic;
use crate::query::bits::Bits;
use crate::query::block::Block;
use crate::query::fault::Fault;
use crate::query::grammar::FIELD_PREFIX;
use crate::query::predicate::{Folded, Side, field_key, side};
use crate::query::spec::{Flag, FoldSpec};
use crate::schema::{CHECKPOINT, TEXT_SUFFIX, ValueType};

/// The columns of a table that are no fields. A field of such a name is shown after `field:`.
static FIXED: [(&str, Shown); 6] = [
    ("node", Shown::Node),
    ("name", Shown::Name),
    ("nonce", Shown::Nonce),
    ("seq", Shown::Seq),
    ("written", Shown::Written),
    ("checkpoint", Shown::Checkpoint),
];

/// What a column of a table shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Node,
    Name,
    Nonce,
    Seq,
    Written,
    Checkpoint,
    /// The numbers of a field, as this type.
    Numbers(Arc<str>, ValueType),
    /// The texts of a field.
    Texts(Arc<str>),
}

/// The columns of a table, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownColumns {
    columns: Vec<(String, Shown)>,
}

impl ShownColumns {
    /// The columns of an answer of the builder.
    pub(crate) fn of_query(keys: &[&str], fields: &FieldTable) -> ShownColumns {
        ShownColumns::new(4, keys.iter().map(|key| field_key(key)), fields)
    }

    /// The columns of the table `nodes`.
    pub(crate) fn of_nodes(fields: &FieldTable) -> ShownColumns {
        ShownColumns::new(FIXED.len(), fields.types.keys().map(|key| &**key), fields)
    }

    /// The first of the fixed columns, then what some fields show, each once.
    fn new<'a>(fixed: usize, keys: impl Iterator<Item = &'a str>, fields: &FieldTable) -> ShownColumns {
        let fixed = FIXED.iter().take(fixed).map(|(name, shown)| ((*name).to_owned(), shown.clone()));
        let mut columns = ShownColumns { columns: fixed.collect() };
        for key in keys {
            columns.add_field(key, fields);
        }
        let mut known = HashSet::new();
        columns.columns.retain(|(name, _)| known.insert(name.clone()));
        columns
    }

    /// Some of the columns, in this order.
    pub(crate) fn project(&self, places: &[usize]) -> ShownColumns {
        ShownColumns {
            columns: places.iter().filter_map(|place| self.columns.get(*place)).cloned().collect(),
        }
    }

    /// Those of these names.
    pub(crate) fn only(&self, names: &HashSet<&str>) -> ShownColumns {
        let named = self.columns.iter().filter(|(name, _)| names.contains(name.as_str()));
        ShownColumns { columns: named.cloned().collect() }
    }

    /// The field that the column of a name shows.
    pub(crate) fn key(&self, name: &str) -> Option<&Arc<str>> {
        match self.columns.iter().find(|(column, _)| column == name)? {
            (_, Shown::Numbers(key, _) | Shown::Texts(key)) => Some(key),
            _ => None,
        }
    }

    fn add_field(&mut self, key: &str, fields: &FieldTable) {
        let (key, side) = side(key);
        let types = fields.get(key);
        let collides = FIXED.iter().any(|(name, _)| *name == key);
        let name = if collides { format!("{FIELD_PREFIX}{key}") } else { key.to_owned() };
        let key: Arc<str> = Arc::from(key);
        // A field that nothing has is shown as an empty column of numbers, so that a table keeps its shape.
        let numeric = types.numeric().or_else(|| types.is_empty().then_some(ValueType::Float));
        if side == Side::All
            && let Some(numeric) = numeric
        {
            self.columns.push((name.clone(), Shown::Numbers(Arc::clone(&key), numeric)));
        }
        if types.has_text() {
            self.columns.push((format!("{name}{TEXT_SUFFIX}"), Shown::Texts(key)));
        }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|(name, shown)| {
            let (data_type, nullable) = match shown {
                Shown::Node | Shown::Name | Shown::Nonce => (DataType::Utf8, false),
                Shown::Seq => (DataType::Int64, false),
                Shown::Written => (written_type(), true),
                Shown::Checkpoint => (DataType::Boolean, false),
                Shown::Numbers(_, value_type) => (value_type.arrow(), true),
                Shown::Texts(_) => (DataType::Utf8, true),
            };
            Field::new(name, data_type, nullable)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Adds what the columns need to a fold.
    pub(crate) fn need(&self, spec: &mut FoldSpec) {
        for (_, shown) in &self.columns {
            match shown {
                Shown::Numbers(key, _) | Shown::Texts(key) => {
                    spec.column(key);
                }
                Shown::Checkpoint => {
                    spec.flag(&Flag::True(CHECKPOINT));
                }
                Shown::Written => spec.written = true,
                Shown::Node | Shown::Name | Shown::Nonce | Shown::Seq => {}
            }
        }
    }

    /// Shows the kept nodes of a block. `inexact` takes up one note for each column with an integer that is shown
    /// as the nearest float.
    pub(crate) fn batch(
        &self,
        folded: &mut Folded<'_>,
        spec: &FoldSpec,
        keep: &Bits,
        inexact: &Mutex<Vec<Diagnostic>>,
    ) -> Result<RecordBatch, Fault> {
        let failed = |error| Fault::answer("assemble", error);
        let block = folded.block;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (_, shown) in &self.columns {
            arrays.push(match shown {
                Shown::Node => nodes(block)?,
                Shown::Name => run_texts(block, |run| &run.name),
                Shown::Nonce => run_texts(block, |run| &run.nonce),
                Shown::Seq => Arc::new(Int64Array::from_iter_values(block.seqs().iter().copied())),
                Shown::Written => written(block),
                Shown::Checkpoint => {
                    let flag = spec.flags.iter().position(|flag| *flag == Flag::True(CHECKPOINT));
                    let bits = flag.map_or_else(|| Bits::new(block.len()), |flag| block.flag(flag));
                    Arc::new(BooleanArray::new(bits.into_buffer(), None))
                }
                Shown::Numbers(key, value_type) => {
                    folded.find(spec, key).numbers(*value_type, keep, |value| note(inexact, key, value))
                }
                Shown::Texts(key) => folded.find(spec, key).texts(),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(block.len()));
        let batch = RecordBatch::try_new_with_options(self.schema(), arrays, &options).map_err(failed)?;
        if keep.count() == block.len() {
            return Ok(batch);
        }
        filter_record_batch(&batch, &BooleanArray::new(keep.clone().into_buffer(), None)).map_err(failed)
    }
}

/// The type of a time.
pub(crate) fn written_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::from("UTC")))
}

/// Notes an integer that is shown as the nearest float, once for each field.
pub(crate) fn note(inexact: &Mutex<Vec<Diagnostic>>, key: &str, value: i64) {
    let mut notes = inexact.lock().unwrap_or_else(PoisonError::into_inner);
    let known =
        |note: &Diagnostic| matches!(note, Diagnostic::InexactInteger { key: noted, .. } if noted == key);
    if !notes.iter().any(known) {
        notes.push(Diagnostic::InexactInteger { key: key.to_owned(), value });
    }
}

fn nodes(block: &Block) -> Result<ArrayRef, Fault> {
    let mut builder = StringBuilder::with_capacity(block.len(), block.len() * 48);
    for (run, slots) in block.runs() {
        let base = run.node()?;
        for seq in &block.seqs()[slots] {
            match base.at(seq.cast_unsigned()) {
                Ok(node) => builder.append_value(node.address()),
                Err(_) => builder.append_value(""),
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn run_texts(block: &Block, text: impl Fn(&RunKey) -> &str) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(block.len(), block.len() * 24);
    for (run, slots) in block.runs() {
        let text = text(run);
        for _ in slots {
            builder.append_value(text);
        }
    }
    Arc::new(builder.finish())
}

fn written(block: &Block) -> ArrayRef {
    let (_, written) = block.writes();
    let written = written.into_iter().map(|write| (write != i64::MIN).then_some(write));
    Arc::new(TimestampNanosecondArray::from_iter(written).with_timezone("UTC"))
}
