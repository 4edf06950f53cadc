//! Row groups to record batches: only the columns and rows that were asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::column::page::{Page, PageIterator};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::published::{Part, PartBytes};
use crate::query::fault::Fault;
use crate::query::pages::{OneChunk, pages};
use crate::query::spec::{Layout, Selection};

/// Column chunks that lie closer than this are read at once.
const MAX_GAP_BYTES: u64 = 32 * 1024;

/// Decodes the rows of one row group in batches.
pub(crate) struct GroupReader {
    part: Arc<Part>,
    reader: ParquetRecordBatchReader,
}

impl GroupReader {
    /// Reads the chunks of the columns of `layout` into memory and prepares to decode `selection` of them.
    pub(crate) fn open(
        part: &Arc<Part>,
        file: &PartBytes,
        group: usize,
        layout: &Layout,
        selection: Selection,
        batch_rows: usize,
    ) -> Result<GroupReader, Fault> {
        let bytes = ChunkBytes::read(part, file, group, &layout.leaves)?;
        let groups =
            OneGroup { bytes: Arc::new(bytes), metadata: &part.metadata, group, leaves: &layout.leaves };
        let open = || {
            ParquetRecordBatchReader::try_new_with_row_groups(&layout.levels, &groups, batch_rows, selection)
        };
        let reader = guarded(part, open)?;
        Ok(GroupReader { part: Arc::clone(part), reader })
    }

    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Fault> {
        let GroupReader { part, reader } = self;
        guarded(part, || reader.next().transpose().map_err(ParquetError::from))
    }
}

/// Shows the pages of one column chunk, decompressed and not decoded. Damage is an error, as in decoding.
pub(crate) fn each_page(
    part: &Arc<Part>,
    file: &PartBytes,
    group: usize,
    leaf: usize,
    mut each: impl FnMut(&Page),
) -> Result<(), Fault> {
    let bytes = Arc::new(ChunkBytes::read(part, file, group, &[leaf])?);
    let metadata = part.metadata.row_group(group);
    let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
    guarded(part, || {
        let mut pages = pages(&bytes, metadata.column(leaf), rows)?;
        while let Some(page) = pages.get_next_page()? {
            each(&page);
        }
        Ok(())
    })
}

/// Runs a decoder. Damaged bytes make it fail or, where it did not foresee them, panic; both are damage.
fn guarded<T>(part: &Arc<Part>, decode: impl FnOnce() -> ParquetResult<T>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            Err(Fault::Damaged(Arc::clone(part), part.damaged_by("its data cannot be decoded", error)))
        }
        Err(_) => Err(Fault::Damaged(Arc::clone(part), part.damaged("its data cannot be decoded"))),
    }
}

/// The chunks of some columns of a row group, in memory.
struct ChunkBytes {
    file_bytes: u64,
    /// Sorted by their place in the file.
    spans: Vec<(u64, Bytes)>,
}

impl ChunkBytes {
    fn read(part: &Arc<Part>, file: &PartBytes, group: usize, leaves: &[usize]) -> Result<ChunkBytes, Fault> {
        let metadata = part.metadata.row_group(group);
        let mut ranges: Vec<(u64, u64)> =
            leaves.iter().map(|leaf| metadata.column(*leaf).byte_range()).collect();
        ranges.sort_unstable();
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (start, bytes) in ranges {
            match spans.last_mut() {
                Some((_, end)) if start <= end.saturating_add(MAX_GAP_BYTES) => {
                    *end = (*end).max(start + bytes)
                }
                _ => spans.push((start, start + bytes)),
            }
        }
        let read = |(start, end): (u64, u64)| match file.read(start, end - start) {
            Ok(bytes) => Ok((start, bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Fault::Damaged(Arc::clone(part), part.damaged("it ends before its data")))
            }
            Err(source) => Err(Fault::io("read", &part.path, source)),
        };
        let spans = spans.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(ChunkBytes { file_bytes: u64::MAX, spans })
    }

    fn slice(&self, start: u64, length: Option<usize>) -> ParquetResult<Bytes> {
        let after = self.spans.partition_point(|(span, _)| *span <= start);
        let span = after.checked_sub(1).and_then(|index| self.spans.get(index));
        span.and_then(|(span, bytes)| {
            let from = usize::try_from(start - span).ok()?;
            let to = length.map_or(Some(bytes.len()), |length| from.checked_add(length))?;
            (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
        })
        .ok_or_else(|| ParquetError::EOF(format!("no bytes of the column at {start}")))
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.slice(start, None)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.slice(start, Some(length))
    }
}

/// One row group as the decoder wants it, with the columns of a layout alone.
struct OneGroup<'a> {
    bytes: Arc<ChunkBytes>,
    metadata: &'a ParquetMetaData,
    group: usize,
    leaves: &'a [usize],
}

impl RowGroups for OneGroup<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.metadata.row_group(self.group).column(self.leaves[column]);
        Ok(Box::new(OneChunk(Some(pages(&self.bytes, chunk, self.num_rows())?))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}
