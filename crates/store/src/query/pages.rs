//! The pages of a column chunk, decompressed with one context for each thread.
//!
//! The decoder of the parquet crate makes a zstd context for every column chunk and throws it away. With many small
//! parts that costs as much as decompressing, so zstd pages are taken from it as they are and decompressed here.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

/// A page larger than this is damage: our writer makes pages of at most a few megabytes, others of a few more.
const MAX_PAGE_BYTES: u64 = 1 << 30;

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Prepares to read the pages of a chunk.
pub(crate) fn pages<R: ChunkReader + 'static>(
    bytes: &Arc<R>,
    chunk: &ColumnChunkMetaData,
    rows: usize,
) -> ParquetResult<Box<dyn PageReader>> {
    if !matches!(chunk.compression(), Compression::ZSTD(_)) {
        return Ok(Box::new(SerializedPageReader::new(Arc::clone(bytes), chunk, rows, None)?));
    }
    // Told that nothing is compressed, the reader hands the pages over as they are.
    let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
    let pages = SerializedPageReader::new(Arc::clone(bytes), &plain, rows, None)?;
    Ok(Box::new(ZstdPages { pages }))
}

struct ZstdPages<R: ChunkReader> {
    pages: SerializedPageReader<R>,
}

impl<R: ChunkReader> PageReader for ZstdPages<R> {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        self.pages.get_next_page()?.map(decompress_page).transpose()
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

impl<R: ChunkReader> Iterator for ZstdPages<R> {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn decompress_page(mut page: Page) -> ParquetResult<Page> {
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = decompress(buf, 0)?,
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
            if *is_compressed {
                // The levels stand before the values and are never compressed.
                *buf = decompress(buf, *def_levels_byte_len as usize + *rep_levels_byte_len as usize)?;
            }
        }
    }
    Ok(page)
}

/// Decompresses what follows the first `plain` bytes.
fn decompress(page: &Bytes, plain: usize) -> ParquetResult<Bytes> {
    let damaged = |what: &str| ParquetError::General(format!("a compressed page {what}"));
    let (levels, compressed) =
        page.split_at_checked(plain).ok_or_else(|| damaged("is shorter than its levels"))?;
    if compressed.is_empty() {
        return Ok(page.clone());
    }
    let size = match get_frame_content_size(compressed) {
        Ok(Some(size)) if size > MAX_PAGE_BYTES => return Err(damaged("claims an impossible size")),
        Ok(size) => size.and_then(|size| usize::try_from(size).ok()),
        Err(_) => return Err(damaged("has no zstd frame")),
    };
    let mut buffer = Vec::with_capacity(plain + size.unwrap_or(0));
    buffer.extend_from_slice(levels);
    match size {
        Some(size) => {
            let mut cursor = io::Cursor::new(&mut buffer);
            cursor.set_position(plain as u64);
            let values = with_decompressor(|shared| shared.decompress_to_buffer(compressed, &mut cursor))?;
            if values != size {
                return Err(damaged("is shorter than it claims"));
            }
        }
        // Written in one stream, so the frame does not know its size.
        None => zstd::stream::copy_decode(compressed, &mut buffer)?,
    }
    Ok(Bytes::from(buffer))
}

fn with_decompressor<T>(use_it: impl FnOnce(&mut Decompressor<'static>) -> io::Result<T>) -> io::Result<T> {
    DECOMPRESSOR.with_borrow_mut(|shared| {
        let decompressor = match shared {
            Some(decompressor) => decompressor,
            None => shared.insert(Decompressor::new()?),
        };
        use_it(decompressor)
    })
}

/// The pages of the only chunk of a column.
pub(crate) struct OneChunk(pub(crate) Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
