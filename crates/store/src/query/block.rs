//! A block of nodes: the slots, and the rows that are folded into them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::field::Scalar;
use crate::listing::Types;
use crate::published::RunKey;
use crate::query::bits::Bits;
use crate::query::chunk::{Chunk, text};
use crate::query::cursor::Taken;
use crate::query::slots::{Filler, FoldedColumn};

/// Up to this many pieces of one run are compared pair by pair.
const MAX_PAIRS: usize = 64;

/// Nodes in the order of their identities, with the rows that are folded into them.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Whether the order of the rows of a node matters.
    ranks: bool,
    sections: Vec<Section>,
    /// The position of each node.
    seqs: Vec<i64>,
    pieces: Vec<Piece>,
}

/// The nodes of one run that came in one step.
#[derive(Debug)]
struct Section {
    run: Arc<RunKey>,
    slots: Range<usize>,
    pieces: Range<usize>,
    order: Order,
}

/// How the rows of a section are offered to their slots: those of a node with the best first.
#[derive(Debug)]
enum Order {
    /// Piece by piece; places among the pieces of the block.
    Pieces(Vec<usize>),
    /// Row by row: piece, row, slot.
    Rows(Vec<(u32, u32, u32)>),
}

/// Rows of one run of one part.
#[derive(Debug)]
struct Piece {
    chunk: Arc<Chunk>,
    rows: Range<usize>,
    rank: u32,
    slots: Slots,
}

/// Which slot each row of a piece belongs to.
#[derive(Debug)]
enum Slots {
    /// The first row to this one, the next to the next.
    From(usize),
    Each(Vec<u32>),
}

/// The best and the worst priority in a piece; two pieces whose ranges overlap are compared row by row.
type Priority = (Option<Reverse<i64>>, Option<i64>);

impl Block {
    /// An empty block; `ranks` says whether the order of the rows of a node matters.
    pub(crate) fn new(ranks: bool) -> Block {
        Block { ranks, ..Block::default() }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.seqs.len()
    }

    pub(crate) fn seqs(&self) -> &[i64] {
        &self.seqs
    }

    /// The runs of the block with their slots, in order. A run may occur twice in a row.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&Arc<RunKey>, Range<usize>)> {
        self.sections.iter().map(|section| (&section.run, section.slots.clone()))
    }

    /// Adds what one step took.
    pub(crate) fn add(&mut self, taken: &mut Vec<Taken>) {
        // The sort is stable, so the pieces of one part stay in their order.
        if taken.len() > 1 {
            taken.sort_by(|one, other| {
                if Arc::ptr_eq(&one.run, &other.run) {
                    std::cmp::Ordering::Equal
                } else {
                    one.run.cmp(&other.run)
                }
            });
        }
        let mut rest = taken.drain(..).peekable();
        let mut of_run: Vec<Taken> = Vec::new();
        while let Some(piece) = rest.next() {
            let ends =
                rest.peek().is_none_or(|next| !Arc::ptr_eq(&next.run, &piece.run) && next.run != piece.run);
            of_run.push(piece);
            if ends {
                self.add_run(&mut of_run);
            }
        }
    }

    fn add_run(&mut self, taken: &mut Vec<Taken>) {
        let Some(first) = taken.first() else { return };
        let run = Arc::clone(&first.run);
        let (base, first_piece) = (self.seqs.len(), self.pieces.len());
        self.assign_slots(taken);
        let order = self.order(first_piece);
        let pieces = first_piece..self.pieces.len();
        self.sections.push(Section { run, slots: base..self.seqs.len(), pieces, order });
    }

    /// Gives each node of the pieces a slot, in the order of the positions.
    fn assign_slots(&mut self, taken: &mut Vec<Taken>) {
        let base = self.seqs.len();
        if let [piece] = taken.as_slice()
            && is_strictly_rising(piece.seqs())
        {
            self.seqs.extend_from_slice(piece.seqs());
            self.pieces.extend(taken.drain(..).map(|taken| taken.into_piece(Slots::From(base))));
            return;
        }
        let rows: usize = taken.iter().map(|piece| piece.rows.len()).sum();
        let first = taken.iter().filter_map(|piece| piece.seqs().first()).min().copied().unwrap_or(0);
        let last = taken.iter().filter_map(|piece| piece.seqs().last()).max().copied().unwrap_or(0);
        // Positions are at least 0, so the difference fits.
        let width = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
        if width <= rows.saturating_mul(2).saturating_add(64) {
            self.assign_dense(taken, first, width);
        } else {
            self.assign_sparse(taken);
        }
    }

    /// Slots by a table over all positions between the first and the last.
    fn assign_dense(&mut self, taken: &mut Vec<Taken>, first: i64, width: usize) {
        let base = self.seqs.len();
        let offset = |seq: i64| usize::try_from(seq - first).unwrap_or(0);
        let mut present = vec![false; width];
        for piece in taken.iter() {
            for seq in piece.seqs() {
                present[offset(*seq)] = true;
            }
        }
        if present.iter().all(|present| *present) {
            self.seqs.extend((first..).take(width));
            for taken in taken.drain(..) {
                let slots = slots(taken.seqs(), |seq| base + offset(seq));
                self.pieces.push(taken.into_piece(slots));
            }
            return;
        }
        let mut slot_of: Vec<u32> = vec![0; width];
        for (place, seq) in (first..).take(width).enumerate() {
            if present[place] {
                slot_of[place] = narrow(self.seqs.len());
                self.seqs.push(seq);
            }
        }
        for taken in taken.drain(..) {
            let slots = slots(taken.seqs(), |seq| slot_of[offset(seq)] as usize);
            self.pieces.push(taken.into_piece(slots));
        }
    }

    /// Slots by sorting the positions.
    fn assign_sparse(&mut self, taken: &mut Vec<Taken>) {
        let base = self.seqs.len();
        for piece in taken.iter() {
            self.seqs.extend_from_slice(piece.seqs());
        }
        let mut nodes = self.seqs.split_off(base);
        nodes.sort_unstable();
        nodes.dedup();
        for taken in taken.drain(..) {
            let mut place = 0;
            let slots = slots(taken.seqs(), |seq| {
                place += nodes[place..].partition_point(|node| *node < seq);
                base + place
            });
            self.pieces.push(taken.into_piece(slots));
        }
        self.seqs.append(&mut nodes);
    }

    /// Finds an order of the pieces, from `first_piece` on, in which for every node the best row comes first.
    fn order(&self, first_piece: usize) -> Order {
        let pieces = first_piece..self.pieces.len();
        if !self.ranks {
            return Order::Pieces(pieces.collect());
        }
        let ordered_inside = pieces.clone().all(|piece| self.pieces[piece].is_ordered_inside());
        if ordered_inside && let Some(order) = self.order_of_pieces(pieces.clone()) {
            return Order::Pieces(order);
        }
        let mut rows: Vec<(u32, u32, u32)> = Vec::new();
        for index in pieces {
            let piece = &self.pieces[index];
            rows.extend(piece.rows.clone().map(|row| (narrow(index), narrow(row), narrow(piece.slot(row)))));
        }
        rows.sort_unstable_by(|one, other| {
            let record = |(piece, row, _): &(u32, u32, u32)| (*piece as usize, *row as usize);
            one.2.cmp(&other.2).then_with(|| self.compare_records(record(one), record(other)).reverse())
        });
        Order::Rows(rows)
    }

    fn order_of_pieces(&self, pieces: Range<usize>) -> Option<Vec<usize>> {
        if pieces.len() == 1 {
            return Some(pieces.collect());
        }
        let mut bounds: Vec<(usize, Priority, Priority)> = pieces
            .map(|piece| {
                let (best, worst) = self.pieces[piece].priorities();
                (piece, best, worst)
            })
            .collect();
        bounds.sort_by(|(_, one, _), (_, other, _)| other.cmp(one));
        let mut worst_so_far: Option<Priority> = None;
        for (place, (piece, best, worst)) in bounds.iter().enumerate() {
            if worst_so_far.is_some_and(|worst| worst <= *best) {
                if place > MAX_PAIRS {
                    return None;
                }
                let meets = |(other, _, other_worst): &(usize, Priority, Priority)| {
                    *other_worst <= *best && self.pieces[*other].meets(&self.pieces[*piece])
                };
                if bounds[..place].iter().any(meets) {
                    return None;
                }
            }
            worst_so_far = Some(worst_so_far.map_or(*worst, |so_far| so_far.min(*worst)));
        }
        Some(bounds.into_iter().map(|(piece, _, _)| piece).collect())
    }

    /// Folds a column: for each node the non-null value of its best row that has one.
    pub(crate) fn column(&self, index: usize, types: Types) -> FoldedColumn {
        let array = |piece: &Piece| piece.chunk.columns[index].is_some();
        if !self.pieces.iter().any(array) {
            return FoldedColumn::absent(self.len(), types);
        }
        let mut filler = Filler::new(self.len(), types);
        let mut sources = Vec::new();
        for section in &self.sections {
            match &section.order {
                Order::Pieces(pieces) => {
                    for piece in pieces {
                        let piece = &self.pieces[*piece];
                        let Some(array) = &piece.chunk.columns[index] else { continue };
                        let source = filler.source(array);
                        match &piece.slots {
                            Slots::From(slot) => {
                                filler.fill_range(&source, piece.rows.start, *slot, piece.rows.len());
                            }
                            Slots::Each(slots) => {
                                for (row, slot) in piece.rows.clone().zip(slots) {
                                    filler.fill_one(&source, row, *slot as usize);
                                }
                            }
                        }
                    }
                }
                Order::Rows(rows) => {
                    if sources.is_empty() {
                        let columns = self.pieces.iter().map(|piece| piece.chunk.columns[index].as_ref());
                        sources = columns.map(|column| column.map(|array| filler.source(array))).collect();
                    }
                    for (piece, row, slot) in rows {
                        if let Some(source) = &sources[*piece as usize] {
                            filler.fill_one(source, *row as usize, *slot as usize);
                        }
                    }
                }
            }
        }
        filler.finish()
    }

    /// Answers a question about the records of each node: whether one of them says yes, and none that was
    /// written later takes it back.
    pub(crate) fn flag(&self, index: usize) -> Bits {
        let mut bits = Bits::new(self.len());
        // The newest write that says no, and the newest that says yes, of the nodes where one says no.
        let mut doubted: HashMap<usize, (Option<i64>, Option<i64>)> = HashMap::new();
        let flags =
            || self.pieces.iter().filter_map(|piece| Some((piece, piece.chunk.flags[index].as_ref()?)));
        for (piece, flag) in flags() {
            for row in piece.marked(&flag.yes) {
                bits.set(piece.slot(row));
            }
            for row in flag.no.iter().flat_map(|no| piece.marked(no)) {
                let (no, _) = doubted.entry(piece.slot(row)).or_default();
                *no = (*no).max(piece.chunk.stamp(row).write);
            }
        }
        if doubted.is_empty() {
            return bits;
        }
        for (piece, flag) in flags() {
            for row in piece.marked(&flag.yes) {
                if let Some((_, yes)) = doubted.get_mut(&piece.slot(row)) {
                    *yes = (*yes).max(piece.chunk.stamp(row).write);
                }
            }
        }
        for (slot, (no, yes)) in doubted {
            if no > yes {
                bits.clear(slot);
            }
        }
        bits
    }

    /// Collects the distinct texts of a column for each node, sorted.
    pub(crate) fn set(&self, index: usize) -> Vec<Vec<&str>> {
        let mut sets: Vec<Vec<&str>> = vec![Vec::new(); self.len()];
        for piece in &self.pieces {
            if let Some(texts) = &piece.chunk.sets[index] {
                for row in piece.rows.clone().filter(|row| texts.is_valid(*row)) {
                    sets[piece.slot(row)].push(texts.value(row));
                }
            }
        }
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        sets
    }

    /// The first and the last write among the records of each node; `i64::MAX` and `i64::MIN` where none has one.
    /// A record that only takes the marker of a checkpoint back is housekeeping and does not count: a node does
    /// not become the latest by it.
    pub(crate) fn writes(&self) -> (Vec<i64>, Vec<i64>) {
        let (mut first, mut last) = (vec![i64::MAX; self.len()], vec![i64::MIN; self.len()]);
        for piece in &self.pieces {
            let Some(writes) = &piece.chunk.write else { continue };
            let withdrawn = piece.chunk.withdrawn.as_ref();
            if let (Slots::From(slot), 0, None) = (&piece.slots, writes.null_count(), withdrawn) {
                let writes = &writes.values()[piece.rows.clone()];
                let slots = *slot..*slot + writes.len();
                for (first, write) in first[slots.clone()].iter_mut().zip(writes) {
                    *first = (*first).min(*write);
                }
                for (last, write) in last[slots].iter_mut().zip(writes) {
                    *last = (*last).max(*write);
                }
                continue;
            }
            let counts =
                |row: &usize| writes.is_valid(*row) && withdrawn.is_none_or(|rows| !rows.value(*row));
            for row in piece.rows.clone().filter(counts) {
                let (slot, write) = (piece.slot(row), writes.value(row));
                first[slot] = first[slot].min(write);
                last[slot] = last[slot].max(write);
            }
        }
        (first, last)
    }

    /// The text of a column in the record of a section that was written last among those that have one.
    pub(crate) fn label(&self, index: usize, section: usize) -> Option<(i64, &str)> {
        let section = self.sections.get(section)?;
        let mut best: Option<(i64, &str)> = None;
        for piece in self.pieces.get(section.pieces.clone())? {
            let Some(labels) =
                piece.chunk.labels[index].as_ref().filter(|labels| labels.null_count() < labels.len())
            else {
                continue;
            };
            let mut newest = best.map(|(write, _)| write);
            let mut place = None;
            for row in piece.rows.clone().filter(|row| labels.is_valid(*row)) {
                let write = piece.chunk.stamp(row).write.unwrap_or(i64::MIN);
                if newest.is_none_or(|newest| newest < write) {
                    (newest, place) = (Some(write), Some(row));
                }
            }
            if let Some((write, label)) = newest.zip(place.and_then(|row| text(labels, row))) {
                best = Some((write, label));
            }
        }
        best
    }

    /// The records of a node, the best first.
    pub(crate) fn records(&self, slot: usize) -> Vec<(usize, usize)> {
        let mut records: Vec<(usize, usize)> = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            records.extend(piece.rows.clone().filter(|row| piece.slot(*row) == slot).map(|row| (index, row)));
        }
        records.sort_by(|one, other| self.compare_records(*one, *other).reverse());
        records
    }

    /// Compares the priority of two rows of one node, given by piece and row; the greater one wins.
    fn compare_records(&self, one: (usize, usize), other: (usize, usize)) -> std::cmp::Ordering {
        let (one_piece, other_piece) = (&self.pieces[one.0], &self.pieces[other.0]);
        let stamps = one_piece.chunk.stamp(one.1).priority(&other_piece.chunk.stamp(other.1));
        // Pieces of one part stand in its order, so their place decides like the row.
        stamps.then_with(|| (one_piece.rank, one).cmp(&(other_piece.rank, other)))
    }

    /// A value of one record.
    pub(crate) fn value(&self, (piece, row): (usize, usize), column: usize) -> Option<Scalar> {
        let array = self.pieces[piece].chunk.columns[column].as_ref()?;
        if array.is_null(row) {
            return None;
        }
        Some(match array.data_type() {
            DataType::Boolean => Scalar::Bool(array.as_boolean().value(row)),
            DataType::Int64 => Scalar::Int(array.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Scalar::Float(array.as_primitive::<Float64Type>().value(row)),
            _ => Scalar::Text(array.as_string_opt::<i32>()?.value(row).to_owned()),
        })
    }

    /// The write of one record.
    pub(crate) fn write(&self, (piece, row): (usize, usize)) -> Option<i64> {
        self.pieces[piece].chunk.stamp(row).write
    }
}

impl Taken {
    fn seqs(&self) -> &[i64] {
        &self.chunk.seqs[self.rows.clone()]
    }

    fn into_piece(self, slots: Slots) -> Piece {
        Piece { chunk: self.chunk, rows: self.rows, rank: self.rank, slots }
    }
}

impl Piece {
    fn seqs(&self) -> &[i64] {
        &self.chunk.seqs[self.rows.clone()]
    }

    fn slot(&self, row: usize) -> usize {
        match &self.slots {
            Slots::From(slot) => slot + row - self.rows.start,
            Slots::Each(slots) => slots[row - self.rows.start] as usize,
        }
    }

    /// The rows of the piece at which a mask of its chunk is set.
    fn marked(&self, mask: &BooleanBuffer) -> Vec<usize> {
        let mask = mask.slice(self.rows.start, self.rows.len());
        mask.set_indices().map(|place| self.rows.start + place).collect()
    }

    /// Whether rows of one node stand with the best first.
    fn is_ordered_inside(&self) -> bool {
        match self.slots {
            Slots::From(_) => true,
            Slots::Each(_) => self.seqs().windows(2).zip(self.rows.clone()).all(|(pair, row)| {
                pair[0] != pair[1] || self.chunk.stamp(row).priority(&self.chunk.stamp(row + 1)).is_gt()
            }),
        }
    }

    /// Bounds that no row is above or below.
    fn priorities(&self) -> (Priority, Priority) {
        let (low_process, high_process) = bounds(self.chunk.process.as_ref(), &self.rows);
        let (low_write, high_write) = bounds(self.chunk.write.as_ref(), &self.rows);
        let process = |bound: Option<i64>| bound.map(Reverse);
        // A missing value ranks lowest, for a process as for a write.
        let best = (process(low_process.0), high_write.0);
        let worst = (high_process.1.and_then(|_| process(high_process.0)), low_write.1.and(low_write.0));
        (best, worst)
    }

    /// Whether a node may have rows in both.
    fn meets(&self, other: &Piece) -> bool {
        let ends = |piece: &Piece| piece.seqs().first().copied().zip(piece.seqs().last().copied());
        match (ends(self), ends(other)) {
            (Some((first, last)), Some((other_first, other_last))) => {
                first <= other_last && other_first <= last
            }
            _ => false,
        }
    }
}

/// The smallest and the largest of some values, each with a mark that none of them is missing.
#[expect(clippy::type_complexity, reason = "two pairs, taken apart at once")]
fn bounds(
    array: Option<&Int64Array>,
    rows: &Range<usize>,
) -> ((Option<i64>, Option<()>), (Option<i64>, Option<()>)) {
    let Some(array) = array else { return ((None, None), (None, None)) };
    if array.null_count() == 0 {
        let values = &array.values()[rows.clone()];
        let low = values.iter().copied().fold(i64::MAX, i64::min);
        let high = values.iter().copied().fold(i64::MIN, i64::max);
        return ((Some(low), Some(())), (Some(high), Some(())));
    }
    let present = rows.clone().filter(|row| array.is_valid(*row));
    let values: Vec<i64> = present.map(|row| array.value(row)).collect();
    let all = (values.len() == rows.len()).then_some(());
    ((values.iter().min().copied(), all), (values.iter().max().copied(), all))
}

/// The slots of rows with these positions, as short as possible.
fn slots(seqs: &[i64], slot: impl FnMut(i64) -> usize) -> Slots {
    let each: Vec<u32> = seqs.iter().copied().map(slot).map(narrow).collect();
    match (each.first(), each.last()) {
        (Some(first), Some(last))
            if is_strictly_rising(seqs) && (last - first) as usize + 1 == each.len() =>
        {
            Slots::From(*first as usize)
        }
        _ => Slots::Each(each),
    }
}

fn is_strictly_rising(seqs: &[i64]) -> bool {
    seqs.windows(2).fold(true, |rising, pair| rising & (pair[0] < pair[1]))
}

/// A block is far smaller than 2^32.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
