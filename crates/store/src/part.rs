//! A part: its names, what its footer says, and how it is written.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use thiserror::Error;
use uuid::Uuid;
use waycairn_dag::Node;
use waycairn_durable::FormatVersion;

use crate::presence::{Presence, Sparse, sparse};
use crate::schema::{
    BLOB, FOOTER_FIRST, FOOTER_FORMAT, FOOTER_LAST, FOOTER_PARENTS, FOOTER_REPLACES, FOOTER_REST_OF,
    FOOTER_ROWS, FOOTER_RUNS, FOOTER_SPARSE, FOOTER_WRITER, FOOTER_WRITES, IDENTITY, MAX_FOOTER_RUNS, NONCE,
    PARENT, RESERVED, SORT_ORDER, ValueType,
};

/// A part is `part-<uuid>.parquet`; every other name in `objects/values` is no part.
const PREFIX: &str = "part-";
const SUFFIX: &str = ".parquet";

/// The source of a compaction is kept under this and its name, until readers that listed it are done.
const RETIRED_PREFIX: &str = ".old-";

/// A row group has about this many cells: small enough that one node is read without much else, large enough
/// that the footer stays short.
const GROUP_CELLS: usize = 1 << 20;
const GROUP_ROWS: std::ops::RangeInclusive<usize> = 8_192..=65_536;

/// A page has at most this many rows, so that one node costs one small page of each column.
const PAGE_ROWS: usize = 4_096;

/// With more columns than this a part is compressed by Snappy: a Zstandard context takes 180 KB for every column, which are all
/// written at once.
const MAX_ZSTD_COLUMNS: usize = 1_024;

/// The folder of the parts under an output root.
pub(crate) fn values_folder(root: &Path) -> PathBuf {
    root.join("objects").join("values")
}

/// A name for a new part that no other part has.
pub(crate) fn new_part_name() -> String {
    format!("{PREFIX}{}{SUFFIX}", Uuid::new_v4())
}

/// Whether readers take the file of this name for a part.
pub(crate) fn is_part_name(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

/// The hidden name of a part that a compaction has replaced. A reader that listed the part and finds it gone
/// opens this.
pub(crate) fn retired_name(part: &str) -> String {
    format!("{RETIRED_PREFIX}{part}")
}

/// Whether a compaction gave this name.
pub(crate) fn is_retired_name(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(RETIRED_PREFIX))
        .is_some_and(|part| is_part_name(OsStr::new(part)))
}

/// Decodes a part to its last byte, and says how many rows it has. What is wrong with it, or with what its footer says of its
/// row groups, is said in words.
pub(crate) fn read_all(file: File) -> Result<u64, String> {
    // A decoder that meets bytes it did not foresee may panic; that is damage, not a defect of the caller.
    catch_unwind(AssertUnwindSafe(|| decode_all(file)))
        .unwrap_or_else(|_| Err("its data cannot be decoded".to_owned()))
}

fn decode_all(file: File) -> Result<u64, String> {
    let text = |error: ParquetError| error.to_string();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(text)?;
    let promised = builder.metadata().file_metadata().num_rows();
    let told = builder.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let told = told.filter(|pair| pair.key == FOOTER_SPARSE).find_map(|pair| pair.value.clone());
    let group_rows = builder.metadata().row_groups().first().map_or(0, |group| group.num_rows());
    let schema = Arc::clone(builder.schema());
    let mut presence = Presence::new(&schema, usize::try_from(group_rows).unwrap_or(0));
    let mut rows = 0;
    for batch in builder.build().map_err(text)? {
        let batch = batch.map_err(|error| error.to_string())?;
        rows += batch.num_rows() as u64;
        if told.is_some() {
            presence.add(&batch);
        }
    }
    if told.is_some() && told != presence.to_text(&schema) {
        return Err(format!("its footer key `{FOOTER_SPARSE}` does not say where its columns have values"));
    }
    match u64::try_from(promised) {
        Ok(promised) if promised == rows => Ok(rows),
        _ => Err(format!("its footer promises {promised} rows, and it has {rows}")),
    }
}

/// A run that has rows in a part, and the positions between which they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRange {
    pub(crate) name: String,
    pub(crate) nonce: String,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

impl RunRange {
    fn is_of(&self, node: &Node) -> bool {
        self.name == node.name() && self.nonce == node.nonce()
    }

    /// Whether the node is one of those between its positions.
    pub(crate) fn has(&self, node: &Node) -> bool {
        self.is_of(node) && (self.first_seq..=self.last_seq).contains(&node.seq())
    }

    fn of(node: &Node) -> RunRange {
        let (name, nonce) = (node.name().to_owned(), node.nonce().to_owned());
        RunRange { name, nonce, first_seq: node.seq(), last_seq: node.seq() }
    }
}

/// What the footer of a part of ours says about its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartFacts {
    /// The number of rows.
    pub(crate) rows: u64,
    /// The smallest identity.
    pub(crate) first: Node,
    /// The largest identity.
    pub(crate) last: Node,
    /// The smallest and the largest write.
    pub(crate) writes: (i64, i64),
    /// The writer of all rows; `None` when there are several.
    pub(crate) writer: Option<String>,
    /// All runs, sorted; `None` when there are more than [`MAX_FOOTER_RUNS`].
    pub(crate) runs: Option<Vec<RunRange>>,
    /// The runs that recorded parents are of, and between which of their positions those lie, sorted; `None` when it is not
    /// known or there are more than [`MAX_FOOTER_RUNS`].
    pub(crate) parents: Option<Vec<RunRange>>,
    /// The names of the parts that a compaction made it of: it holds all of their rows.
    pub(crate) replaces: Vec<String>,
    /// The name of the part that a removal made it of, which holds its rows and those of the run.
    pub(crate) rest_of: Option<String>,
}

/// What to do about a part of a newer program, which is nothing else than well.
pub(crate) const NEWER_ADVICE: &str = "upgrade the program";

/// A footer whose facts cannot be used.
#[derive(Debug, Error)]
pub(crate) enum FactsError {
    /// They are not what they must be.
    #[error("the footer key `{key}` is missing or malformed: {found:?}")]
    Damaged { key: &'static str, found: Option<String> },
    /// A newer program wrote the part.
    #[error(
        "it is of format {found}, and this program reads up to {}: {NEWER_ADVICE}",
        FormatVersion::CURRENT
    )]
    Newer { found: String },
}

impl PartFacts {
    /// The facts of rows of one writer, each with its write, in the order of a part; `None` without a row.
    pub(crate) fn of_rows<'a>(
        rows: impl IntoIterator<Item = (&'a Node, i64)>,
        writer: &str,
    ) -> Option<PartFacts> {
        let mut rows = rows.into_iter();
        let (first, write) = rows.next()?;
        let (mut count, mut writes, mut last) = (1, (write, write), first);
        let mut runs = Some(vec![RunRange::of(first)]);
        let mut parents = Parents::default();
        parents.add(first);
        for (node, write) in rows {
            parents.add(node);
            count += 1;
            writes = (writes.0.min(write), writes.1.max(write));
            match runs.as_mut().and_then(|runs| runs.last_mut()) {
                Some(run) if last.same_run(node) => run.last_seq = node.seq(),
                Some(_) => {
                    runs = runs.filter(|runs| runs.len() < MAX_FOOTER_RUNS);
                    runs.iter_mut().for_each(|runs| runs.push(RunRange::of(node)));
                }
                None => {}
            }
            last = node;
        }
        let (first, last, writer) = (first.clone(), last.clone(), Some(writer.to_owned()));
        let parents = parents.ranges();
        let (replaces, rest_of) = (Vec::new(), None);
        Some(PartFacts { rows: count, first, last, writes, writer, runs, parents, replaces, rest_of })
    }

    /// Adds the rows of another part. Of what this one was made stays as it is.
    pub(crate) fn merge(&mut self, other: &PartFacts) {
        if self.writer != other.writer {
            self.writer = None;
        }
        self.rows += other.rows;
        self.writes = (self.writes.0.min(other.writes.0), self.writes.1.max(other.writes.1));
        if other.first < self.first {
            self.first = other.first.clone();
        }
        if other.last > self.last {
            self.last = other.last.clone();
        }
        let both = |ours: Option<Vec<RunRange>>, theirs: &Option<Vec<RunRange>>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => merge_runs(ours, theirs),
            _ => None,
        };
        self.runs = both(self.runs.take(), &other.runs);
        self.parents = both(self.parents.take(), &other.parents);
    }

    /// The footer's key-values.
    pub(crate) fn to_key_values(&self) -> Vec<KeyValue> {
        let identity = |node: &Node| serde_json::json!([node.name(), node.nonce(), node.seq()]).to_string();
        let mut pairs = vec![
            (FOOTER_FORMAT, FormatVersion::CURRENT.to_string()),
            (FOOTER_ROWS, self.rows.to_string()),
            (FOOTER_FIRST, identity(&self.first)),
            (FOOTER_LAST, identity(&self.last)),
            (FOOTER_WRITES, serde_json::json!([self.writes.0, self.writes.1]).to_string()),
        ];
        pairs.extend(self.writer.clone().map(|writer| (FOOTER_WRITER, writer)));
        for (key, runs) in [(FOOTER_RUNS, &self.runs), (FOOTER_PARENTS, &self.parents)] {
            if let Some(runs) = runs {
                let runs = runs.iter().map(|run| (&run.name, &run.nonce, run.first_seq, run.last_seq));
                pairs.push((key, serde_json::json!(runs.collect::<Vec<_>>()).to_string()));
            }
        }
        if !self.replaces.is_empty() {
            pairs.push((FOOTER_REPLACES, serde_json::json!(self.replaces).to_string()));
        }
        pairs.extend(self.rest_of.clone().map(|part| (FOOTER_REST_OF, part)));
        pairs.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
    }

    /// Which columns are not in every row group, as far as the footer tells.
    ///
    /// # Errors
    /// [`FactsError::Damaged`].
    pub(crate) fn sparse(pairs: Option<&[KeyValue]>) -> Result<Sparse, FactsError> {
        let pair = pairs.unwrap_or_default().iter().find(|pair| pair.key == FOOTER_SPARSE);
        let Some(found) = pair.and_then(|pair| pair.value.as_deref()) else { return Ok(Sparse::default()) };
        let damaged = || FactsError::Damaged { key: FOOTER_SPARSE, found: Some(found.to_owned()) };
        sparse(found).ok_or_else(damaged)
    }

    /// Reads the facts back; `None` for a part that another program wrote.
    ///
    /// # Errors
    /// [`FactsError`] when the footer is marked as ours but its facts are damaged, or newer than this program.
    pub(crate) fn from_key_values(pairs: Option<&[KeyValue]>) -> Result<Option<PartFacts>, FactsError> {
        let find = |key: &str| {
            let pair = pairs.unwrap_or_default().iter().find(|pair| pair.key == key)?;
            pair.value.as_deref()
        };
        let Some(format) = find(FOOTER_FORMAT) else { return Ok(None) };
        let damaged = |key| FactsError::Damaged { key, found: find(key).map(str::to_owned) };
        let major = format.split_once('.').and_then(|(major, _)| major.parse::<u16>().ok());
        if major.ok_or_else(|| damaged(FOOTER_FORMAT))? > FormatVersion::CURRENT.major {
            return Err(FactsError::Newer { found: format.to_owned() });
        }
        let identity = |key| {
            let parsed = find(key).and_then(|text| serde_json::from_str::<(String, String, u64)>(text).ok());
            let node = parsed.and_then(|(name, nonce, seq)| Node::new(&name, &nonce, seq).ok());
            node.ok_or_else(|| damaged(key))
        };
        let json =
            |key| find(key).and_then(|text| serde_json::from_str(text).ok()).ok_or_else(|| damaged(key));
        let replaces = find(FOOTER_REPLACES).map_or(Ok(Vec::new()), |text| {
            serde_json::from_str(text).map_err(|_| damaged(FOOTER_REPLACES))
        })?;
        let ranges = |key| -> Result<Option<Vec<RunRange>>, FactsError> {
            let Some(text) = find(key) else { return Ok(None) };
            let runs: Vec<(String, String, u64, u64)> =
                serde_json::from_str(text).map_err(|_| damaged(key))?;
            let run = |(name, nonce, first_seq, last_seq)| RunRange { name, nonce, first_seq, last_seq };
            Ok(Some(runs.into_iter().map(run).collect()))
        };
        Ok(Some(PartFacts {
            rows: find(FOOTER_ROWS).and_then(|rows| rows.parse().ok()).ok_or_else(|| damaged(FOOTER_ROWS))?,
            first: identity(FOOTER_FIRST)?,
            last: identity(FOOTER_LAST)?,
            writes: json(FOOTER_WRITES)?,
            writer: find(FOOTER_WRITER).map(str::to_owned),
            runs: ranges(FOOTER_RUNS)?,
            parents: ranges(FOOTER_PARENTS)?,
            replaces,
            rest_of: find(FOOTER_REST_OF).map(str::to_owned),
        }))
    }
}

/// Collects the parents of the rows of a part.
#[derive(Default)]
struct Parents {
    /// The run of the parent before, which the next one is likely to be of too.
    last: Option<RunRange>,
    others: Vec<RunRange>,
    too_many: bool,
}

impl Parents {
    fn add(&mut self, node: &Node) {
        let Some(parent) = node.parent().filter(|_| !self.too_many) else { return };
        let parent = parent.decode();
        match &mut self.last {
            Some(last) if last.is_of(&parent) => {
                last.first_seq = last.first_seq.min(parent.seq());
                last.last_seq = last.last_seq.max(parent.seq());
            }
            last => {
                self.others.extend(last.replace(RunRange::of(&parent)));
                // One run after the other may come again and again: they are put together now and then.
                if self.others.len() > 4 * MAX_FOOTER_RUNS {
                    match merge_runs(std::mem::take(&mut self.others), &[]) {
                        Some(merged) => self.others = merged,
                        None => self.too_many = true,
                    }
                }
            }
        }
    }

    fn ranges(mut self) -> Option<Vec<RunRange>> {
        self.others.extend(self.last);
        if self.too_many { None } else { merge_runs(self.others, &[]) }
    }
}

fn merge_runs(ours: Vec<RunRange>, theirs: &[RunRange]) -> Option<Vec<RunRange>> {
    let mut runs = ours;
    runs.extend_from_slice(theirs);
    runs.sort_by(|a, b| (&a.name, &a.nonce).cmp(&(&b.name, &b.nonce)));
    runs.dedup_by(|next, kept| {
        let same = next.name == kept.name && next.nonce == kept.nonce;
        if same {
            kept.first_seq = kept.first_seq.min(next.first_seq);
            kept.last_seq = kept.last_seq.max(next.last_seq);
        }
        same
    });
    (runs.len() <= MAX_FOOTER_RUNS).then_some(runs)
}

/// The Arrow schema of a part: the given reserved columns in their fixed order, then the caller's fields,
/// which must be sorted by name.
pub(crate) fn part_schema<'a>(
    has_reserved: impl Fn(&str) -> bool,
    fields: impl IntoIterator<Item = (&'a str, ValueType)>,
) -> SchemaRef {
    let reserved = RESERVED.iter().filter(|column| !column.nullable || has_reserved(column.name));
    let reserved = reserved.map(|column| Field::new(column.name, column.value_type.arrow(), column.nullable));
    let fields = fields.into_iter().map(|(name, value_type)| Field::new(name, value_type.arrow(), true));
    SchemaRef::new(Schema::new(reserved.chain(fields).collect::<Vec<_>>()))
}

/// Encodes sorted record batches as one part.
pub(crate) struct PartWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
    presence: Presence,
}

impl<W: Write + Send> PartWriter<W> {
    /// Begins a part of `schema`, as [`part_schema`] makes it. `many_runs` says that the footer will not
    /// list the runs.
    pub(crate) fn new(sink: W, schema: SchemaRef, many_runs: bool) -> ParquetResult<PartWriter<W>> {
        let properties = properties(&schema, many_runs)?;
        let presence = Presence::new(&schema, group_rows(&schema));
        // The four types come back from Parquet's own as they were; a second copy of the schema would only
        // make wide footers slow to read.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(sink, Arc::clone(&schema), options)?;
        Ok(PartWriter { writer, schema, presence })
    }

    /// Appends rows, which must stand after those before.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> ParquetResult<()> {
        self.presence.add(batch);
        self.writer.write(batch)
    }

    /// Writes the footer and returns the sink.
    pub(crate) fn finish(mut self, facts: &PartFacts) -> ParquetResult<W> {
        for pair in facts.to_key_values() {
            self.writer.append_key_value_metadata(pair);
        }
        self.writer.flush()?;
        let groups = self.writer.flushed_row_groups().iter().map(|group| group.num_rows());
        if self.presence.is_of(groups)
            && let Some(text) = self.presence.to_text(&self.schema)
        {
            self.writer.append_key_value_metadata(KeyValue::new(FOOTER_SPARSE.to_owned(), text));
        }
        // What the disk says to the last of the rows stays an error of its own; that of the next step is a text.
        self.writer.sync()?;
        self.writer.into_inner()
    }
}

/// The rows of each row group of a part but the last.
fn group_rows(schema: &Schema) -> usize {
    (GROUP_CELLS / schema.fields().len().max(1)).clamp(*GROUP_ROWS.start(), *GROUP_ROWS.end())
}

fn properties(schema: &Schema, many_runs: bool) -> ParquetResult<WriterProperties> {
    let compression = if schema.fields().len() > MAX_ZSTD_COLUMNS {
        Compression::SNAPPY
    } else {
        Compression::ZSTD(ZstdLevel::try_new(1)?)
    };
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("waycairn ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some(group_rows(schema)))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_sorting_columns(Some(sorting_columns(schema)?))
        .set_write_path_in_schema(true);
    for field in schema.fields() {
        builder = column_properties(builder, field, many_runs);
    }
    Ok(builder.build())
}

fn column_properties(
    builder: WriterPropertiesBuilder,
    field: &Field,
    many_runs: bool,
) -> WriterPropertiesBuilder {
    let name = field.name().as_str();
    let path = || ColumnPath::new(vec![name.to_owned()]);
    let builder = if IDENTITY.contains(&name) {
        builder.set_column_statistics_enabled(path(), EnabledStatistics::Page)
    } else {
        builder
    };
    let encoded = |builder: WriterPropertiesBuilder, encoding| {
        builder.set_column_dictionary_enabled(path(), false).set_column_encoding(path(), encoding)
    };
    match (name, ValueType::of_arrow(field.data_type())) {
        // A new text in every row, which shares its beginning with the one before.
        (PARENT | BLOB, _) => encoded(builder, Encoding::DELTA_BYTE_ARRAY),
        // Where the footer lists the runs, that says more than a filter could.
        (NONCE, _) if many_runs => builder.set_column_bloom_filter_enabled(path(), true),
        // Positions, writes and counters rise, so their differences are small.
        (_, Some(ValueType::Int)) => encoded(builder, Encoding::DELTA_BINARY_PACKED),
        // Signs and exponents of neighbours are alike. On 50 columns of metrics this made parts 0.6 of the size
        // that a dictionary gave and 0.8 of plain numbers, and was written and read faster than both.
        (_, Some(ValueType::Float)) => encoded(builder, Encoding::BYTE_STREAM_SPLIT),
        _ => builder,
    }
}

fn sorting_columns(schema: &Schema) -> ParquetResult<Vec<SortingColumn>> {
    let column = |(name, descending)| {
        let index = schema.index_of(name).map_err(|error| ParquetError::External(Box::new(error)))?;
        let column_idx = i32::try_from(index).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(SortingColumn { column_idx, descending, nulls_first: false })
    };
    SORT_ORDER.into_iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn node(name: &str, seq: u64) -> Node {
        Node::new(name, "nonce", seq).unwrap()
    }

    #[test]
    fn identity_case_11_only_finished_names_are_parts() {
        let part = new_part_name();
        assert!(is_part_name(OsStr::new(&part)));
        assert!(!is_part_name(OsStr::new(&retired_name(&part))));
        assert!(is_retired_name(OsStr::new(&retired_name(&part))));
        for other in
            [".tmp-1-2", "part-1.parquet.tmp", "notes.txt", ".old-", ".part-1.parquet", "apart-1.parquet"]
        {
            assert!(!is_part_name(OsStr::new(other)), "{other}");
            assert!(!is_retired_name(OsStr::new(other)), "{other}");
        }
    }

    fn facts(rows: &[(&str, u64, i64)]) -> PartFacts {
        let nodes: Vec<(Node, i64)> =
            rows.iter().map(|(name, seq, write)| (node(name, *seq), *write)).collect();
        PartFacts::of_rows(nodes.iter().map(|(node, write)| (node, *write)), "w").unwrap()
    }

    #[test]
    fn store_3_facts_come_back_from_the_footer() {
        let name = "a \"quoted\" \u{4e2d}";
        let mut facts = facts(&[(name, 3, 10), (name, 3, 9), ("b", 0, 11), ("b", 7, 12)]);
        facts.replaces = vec![new_part_name(), new_part_name()];
        facts.rest_of = Some(new_part_name());
        let back = PartFacts::from_key_values(Some(&facts.to_key_values())).unwrap().unwrap();
        assert_eq!(back, facts);
        assert_eq!((back.rows, back.writes, back.last.seq()), (4, (9, 12), 7));
        let runs = back.runs.unwrap();
        assert_eq!(
            runs.iter().map(|run| (run.first_seq, run.last_seq)).collect::<Vec<_>>(),
            [(3, 3), (0, 7)]
        );
        assert_eq!(PartFacts::from_key_values(None).unwrap(), None);
        let mut pairs = facts.to_key_values();
        pairs.retain(|pair| pair.key != FOOTER_LAST);
        assert!(PartFacts::from_key_values(Some(&pairs)).unwrap_err().to_string().contains(FOOTER_LAST));
    }

    #[test]
    fn the_page_about_the_format_has_every_key_of_a_footer() {
        let page = include_str!("../../../docs/format.md");
        let table = page.split("### Footer keys").nth(1).unwrap().split("\n#").next().unwrap();
        let rows: String = table.lines().filter_map(|line| line.split('|').nth(1)).collect();
        let keys = [
            FOOTER_FORMAT,
            FOOTER_ROWS,
            FOOTER_FIRST,
            FOOTER_LAST,
            FOOTER_WRITES,
            FOOTER_WRITER,
            FOOTER_RUNS,
            FOOTER_PARENTS,
            FOOTER_SPARSE,
            FOOTER_REPLACES,
            FOOTER_REST_OF,
        ];
        keys.iter().for_each(|key| assert!(rows.contains(&format!("`{key}`")), "{key}"));
        assert_eq!(rows.matches("`waycairn.").count(), keys.len(), "{rows}");
    }

    #[test]
    fn a_footer_of_a_newer_format_is_refused() {
        let with_format = |version: &str| {
            let mut pairs = facts(&[("a", 0, 1)]).to_key_values();
            pairs[0].value = Some(version.to_owned());
            PartFacts::from_key_values(Some(&pairs))
        };
        assert!(with_format("1.7").is_ok(), "a newer minor version adds what may be ignored");
        assert!(matches!(with_format("2.0"), Err(FactsError::Newer { .. })));
        assert!(matches!(with_format("x"), Err(FactsError::Damaged { key: FOOTER_FORMAT, .. })));
    }

    #[test]
    fn facts_of_two_parts_merge_whatever_their_order() {
        let a = facts(&[("a", 5, 1), ("c", 1, 2)]);
        let b = facts(&[("a", 2, 3), ("b", 1, 4)]);
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);
        assert_eq!((ab.rows, ab.writes), (4, (1, 4)));
        assert_eq!((ab.first.seq(), ab.last.name()), (2, "c"));
        let runs = ab.runs.unwrap();
        assert_eq!(runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((runs[0].first_seq, runs[0].last_seq), (2, 5));
    }

    #[test]
    fn a_footer_lists_no_more_runs_than_its_limit() {
        let names: Vec<String> = (0..=MAX_FOOTER_RUNS).map(|run| format!("r{run:04}")).collect();
        let rows: Vec<(&str, u64, i64)> = names.iter().map(|name| (name.as_str(), 0, 1)).collect();
        assert_eq!(facts(&rows[1..]).runs.unwrap().len(), MAX_FOOTER_RUNS);
        let many = facts(&rows);
        assert!(many.runs.is_none());
        assert_eq!(PartFacts::from_key_values(Some(&many.to_key_values())).unwrap().unwrap(), many);
    }
}
