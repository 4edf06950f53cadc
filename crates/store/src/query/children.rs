//! Who recorded a node as a parent: the one question that no scope of identities narrows, since any record of any program
//! may hold any edge. What narrows it is that our footers say of which runs the recorded parents of a part are, and
//! between which positions.
//!
//! What is left is asked without a merge, one row group after the other on all threads, and most groups are never decoded:
//! our writer stores addresses as what they share with the one before and what follows ([`may_hold`]), and a walk over
//! these differences tells whether an address is among them without building one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow::array::Array;
use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::file::statistics::Statistics;
use waycairn_dag::{Address, Node};

use crate::listing::PartSet;
use crate::published::{Group, Part, PartBytes};
use crate::query::chunk::ChunkMaker;
use crate::query::decode::{GroupReader, each_page};
use crate::query::engine::{lost, threads};
use crate::query::fault::Fault;
use crate::query::scope::RecordScope;
use crate::query::spec::{FoldSpec, Known, Layout};
use crate::schema::PARENT;

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8_192;

/// Who recorded a node as a parent.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// The nodes, in no order; one may be there several times.
    pub(crate) nodes: Vec<Node>,
    /// Whether some part could not be read, so that there may be more.
    pub(crate) incomplete: bool,
}

/// Finds the nodes that recorded `node` as a parent. Damage in a part is a warning in the log: as an error it would make
/// every node unreadable, whatever run it is of.
pub(crate) fn children(set: &PartSet, node: &Node) -> Result<Children, Fault> {
    let address = node.address();
    let may = |part: &&Arc<Part>| {
        part.schema.column(PARENT).is_some()
            && part.parents.as_ref().is_none_or(|parents| parents.iter().any(|range| range.has(node)))
    };
    let parts: Vec<&Arc<Part>> = set.parts.iter().filter(may).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Children, Fault> {
        let mut found = Children::default();
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            match of_part(part, &address, &mut found.nodes) {
                Err(Fault::Damaged(part, error)) => {
                    let part = part.path.display();
                    tracing::warn!(%part, %error, "children that are recorded in a damaged part are not known");
                    found.incomplete = true;
                }
                other => other?,
            }
        }
        Ok(found)
    };
    let others = threads().min(parts.len()).saturating_sub(1);
    thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for worker in others {
            let more = worker.join().unwrap_or_else(|_| Err(lost("a search for children".to_owned())));
            found = found.and_then(|mut found| {
                let more = more?;
                found.nodes.extend(more.nodes);
                found.incomplete |= more.incomplete;
                Ok(found)
            });
        }
        found
    })
}

fn of_part(part: &Arc<Part>, address: &Address, found: &mut Vec<Node>) -> Result<(), Fault> {
    let mut opened: Option<PartBytes> = None;
    for group in part.groups.iter().filter(|group| group.rows > 0) {
        if is_excluded(part, group, address) {
            continue;
        }
        let file = match &mut opened {
            Some(file) => file,
            none => none.insert(part.open().map_err(|fault| Fault::open(part, fault))?),
        };
        if may_hold(part, file, group, address) {
            decode(part, file, group, address, found)?;
        }
    }
    Ok(())
}

/// Whether the statistics of a row group, which other programs write, say that no row has the address.
fn is_excluded(part: &Part, group: &Group, address: &Address) -> bool {
    let leaf = part.schema.column(PARENT).map(|column| column.leaf);
    let chunk = leaf.and_then(|leaf| part.metadata.row_group(group.index).columns().get(leaf));
    let Some(statistics) = chunk.and_then(|chunk| chunk.statistics()) else { return false };
    if statistics.null_count_opt() == u64::try_from(group.rows).ok() {
        return true;
    }
    let Statistics::ByteArray(bounds) = statistics else { return false };
    let address = address.as_str().as_bytes();
    // Shortened bounds are still bounds.
    !statistics.is_min_max_deprecated()
        && (bounds.min_opt().is_some_and(|first| address < first.data())
            || bounds.max_opt().is_some_and(|last| last.data() < address))
}

/// Whether a row of the group may have the address; false only if none has it. What cannot be told, damage among it,
/// is left to the decoder.
fn may_hold(part: &Arc<Part>, file: &PartBytes, group: &Group, address: &Address) -> bool {
    let Some(column) = part.schema.column(PARENT) else { return false };
    let descriptor = part.schema.descriptor.column(column.leaf);
    if descriptor.max_rep_level() > 0 {
        return true;
    }
    let nullable = descriptor.max_def_level() > 0;
    let address = address.as_str().as_bytes();
    let mut may = false;
    let read = each_page(part, file, group.index, column.leaf, |page| {
        may = may || page_holds(page, nullable, address).unwrap_or(true);
    });
    may || read.is_err()
}

/// Whether a page has a value; `None` if that cannot be told.
fn page_holds(page: &Page, nullable: bool, wanted: &[u8]) -> Option<bool> {
    if page.encoding() != Encoding::DELTA_BYTE_ARRAY {
        return None;
    }
    let bytes: &[u8] = page.buffer();
    let values = match page {
        Page::DataPage { def_level_encoding: Encoding::RLE, .. } if nullable => {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            rest.get(u32::from_le_bytes(*length) as usize..)?
        }
        Page::DataPage { .. } if !nullable => bytes,
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            bytes.get(*def_levels_byte_len as usize + *rep_levels_byte_len as usize..)?
        }
        _ => return None,
    };
    holds(values, wanted, page.num_values() as usize)
}

/// Whether values in the encoding DELTA_BYTE_ARRAY have one that is `wanted`: the lengths of the beginnings that each
/// shares with the one before, the lengths of what follows, and what follows, all of it in a row. `None` if it is not
/// well formed, or has more than `most` values.
fn holds(values: &[u8], wanted: &[u8], most: usize) -> Option<bool> {
    let (shared, values) = unpack(values, most)?;
    let (lengths, mut bytes) = unpack(values, most)?;
    if shared.len() != lengths.len() {
        return None;
    }
    // How many bytes the value begins with like the wanted one, and how many it has.
    let (mut alike, mut length) = (0, 0);
    for (shared, own) in shared.into_iter().zip(lengths) {
        let (shared, own) = (usize::try_from(shared).ok()?, usize::try_from(own).ok()?);
        let (suffix, rest) = bytes.split_at_checked(own)?;
        bytes = rest;
        if shared > length {
            return None;
        }
        // What is shared beyond the first difference leaves that difference where it is.
        if shared <= alike {
            let same = suffix.iter().zip(wanted.get(shared..)?).take_while(|(one, other)| one == other);
            alike = shared + same.count();
        }
        length = shared + own;
        if alike == wanted.len() && length == wanted.len() {
            return Some(true);
        }
    }
    Some(false)
}

/// Reads whole numbers in the encoding DELTA_BINARY_PACKED; returns what follows them too. `None` if they are not well
/// formed, or more than `most`.
fn unpack(bytes: &[u8], most: usize) -> Option<(Vec<i64>, &[u8])> {
    let mut rest = bytes;
    let block_values = usize::try_from(unsigned(&mut rest)?).ok()?;
    let miniblocks = usize::try_from(unsigned(&mut rest)?).ok()?;
    let count = usize::try_from(unsigned(&mut rest)?).ok()?;
    let mut value = signed(&mut rest)?;
    let values_each = block_values.checked_div(miniblocks).filter(|each| *each > 0 && each % 8 == 0)?;
    // Checked before memory is taken for them.
    if count > most {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    values.extend((count > 0).then_some(value));
    while values.len() < count {
        let smallest = signed(&mut rest)?;
        let (widths, body) = rest.split_at_checked(miniblocks)?;
        rest = body;
        for width in widths {
            if values.len() == count {
                // Those that nothing is in have a width, and no body.
                break;
            }
            let width = usize::from(*width);
            // Lengths of texts are far from needing so many bits.
            if width > 56 {
                return None;
            }
            let (packed, behind) = rest.split_at_checked(values_each * width / 8)?;
            rest = behind;
            let mask = (1_u64 << width) - 1;
            let (mut window, mut bits, mut packed) = (0_u64, 0, packed.iter());
            for _ in 0..values_each.min(count - values.len()) {
                while bits < width {
                    window |= u64::from(*packed.next()?) << bits;
                    bits += 8;
                }
                value = value.wrapping_add(smallest).wrapping_add((window & mask).cast_signed());
                values.push(value);
                window >>= width;
                bits -= width;
            }
        }
    }
    Some((values, rest))
}

/// Reads a number of 7 bits a byte, the lowest first.
fn unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads a number whose lowest bit is its sign.
fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let number = unsigned(bytes)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}

/// Decodes a row group and keeps the nodes of the rows with the address.
fn decode(
    part: &Arc<Part>,
    file: &PartBytes,
    group: &Group,
    address: &Address,
    found: &mut Vec<Node>,
) -> Result<(), Fault> {
    let mut spec = FoldSpec::default();
    let parents = spec.set(PARENT);
    let known = Known { run: group.run.is_some(), writer: true };
    let layout = Layout::new(&part.schema, &spec, &RecordScope::default(), known).map_err(|error| {
        Fault::Damaged(Arc::clone(part), part.damaged_by("its schema cannot be read", error))
    })?;
    let rows = BATCH_ROWS.min(group.rows);
    let mut reader = GroupReader::open(part, file, group.index, &layout, None, rows)?;
    let Some(place) = layout.sets[parents] else { return Ok(()) };
    let mut maker = ChunkMaker::new(Arc::clone(part), Arc::new(layout));
    while let Some(batch) = reader.next_batch()? {
        let texts = maker.texts(&batch, place)?;
        let has = |row: &usize| texts.is_valid(*row) && texts.value(*row) == address.as_str();
        if !(0..texts.len()).any(|row| has(&row)) {
            continue;
        }
        let seqs = maker.seqs(&batch)?;
        for span in maker.spans(&batch, &seqs, group.run.as_ref())? {
            let base = span.run.node()?;
            found.extend(span.rows.filter(has).filter_map(|row| base.at(seqs[row].cast_unsigned()).ok()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
