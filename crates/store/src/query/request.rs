//! A request and the ways to answer it from one listing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use serde::Serialize;
use waycairn_dag::Node;

use crate::field::Scalar;
use crate::listing::PartSet;
use crate::published::RunKey;
use crate::query::bits::Bits;
use crate::query::block::Block;
use crate::query::builder::NodeRow;
use crate::query::engine::{Threads, fold_ranges, threads};
use crate::query::error::nearest;
use crate::query::expression::{Expr, Term};
use crate::query::fault::Fault;
use crate::query::finished::finished_runs;
use crate::query::plan::FoldPlan;
use crate::query::predicate::{Binder, Folded, Predicate, Side, field_key, side};
use crate::query::scope::{IdentityScope, RecordScope};
use crate::query::short::short_nonces;
use crate::query::shown::ShownColumns;
use crate::query::slots::Value;
use crate::query::sort::{Order, SortKey, SortValue};
use crate::query::spec::FoldSpec;
use crate::query::{Diagnostic, QueryError};
use crate::reader::ObjectReader;
use crate::schema::{BLOB, RESERVED, RESERVED_PREFIX};

/// The key under which a row gives the folder of a node's blob.
const BLOB_KEY: &str = "blob";

/// Sorted rows of one range beyond this are cut to those that the answer can still need.
const MIN_TRIMMED_ROWS: usize = 8_192;

/// What was asked so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) terms: Vec<Term>,
    pub(crate) sort: Vec<(SortKey, Order)>,
    pub(crate) latest: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) offset: usize,
    pub(crate) raw: bool,
    /// What is unknown is an error.
    pub(crate) strict: bool,
}

/// What an answer would read, and what it leaves alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Parts in the listing, those that were made of journals among them.
    pub parts: u64,
    /// Parts that were made of the journals of running writers.
    pub journals: u64,
    /// Parts of which something is read: the footers of the others say that they hold no row in scope.
    pub parts_read: u64,
    /// The others.
    pub parts_pruned: u64,
    /// Row groups in all parts.
    pub row_groups: u64,
    /// Row groups that are read.
    pub row_groups_read: u64,
    /// The others.
    pub row_groups_pruned: u64,
    /// Rows in those that are read; of these the pages outside of the scope are left out too.
    pub rows_read: u64,
    /// Columns that are decoded where a part has them, besides identity and stamp.
    pub columns: Vec<String>,
    /// Ranges of identities that are folded apart.
    pub ranges: u64,
    /// Threads that fold them.
    pub threads: u64,
}

/// Which fields an answer gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection<'a> {
    /// Those that are named.
    Keys(&'a [&'a str]),
    Everything,
}

/// A request with its columns found in one listing.
pub(crate) struct Bound {
    pub(crate) spec: FoldSpec,
    pub(crate) plan: Arc<FoldPlan>,
    pub(crate) predicate: Predicate,
    finished: HashSet<RunKey>,
    given: Given,
    /// What the answer is sorted by, first key first; nothing when it has the order of the identities.
    sort: Vec<(BoundSort, Order)>,
}

/// What is given of each node.
#[derive(Default)]
struct Given {
    /// The key in the answer, the column, and which of its values.
    fields: Vec<(String, usize, Side)>,
    /// The column of the blob's folder.
    blob: Option<usize>,
    /// The columns of a table.
    shown: ShownColumns,
}

#[derive(Clone, Copy, Debug)]
enum BoundSort {
    Name,
    Nonce,
    Seq,
    Written,
    Column(usize, Side),
}

/// What decides the place of a row in an answer.
struct OrderKey {
    first: Option<SortValue>,
    more: Vec<SortValue>,
    written: i64,
    seq: i64,
}

impl OrderKey {
    fn push(&mut self, value: SortValue) {
        match &self.first {
            None => self.first = Some(value),
            Some(_) => self.more.push(value),
        }
    }

    fn sorts(&self) -> impl Iterator<Item = &SortValue> {
        self.first.iter().chain(&self.more)
    }
}

/// What one range gives to an answer: rows, in the order of the identities, each with what orders it.
struct Gathered<T> {
    rows: Vec<T>,
    keys: Vec<OrderKey>,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Gathered { rows: Vec::new(), keys: Vec::new() }
    }
}

impl Request {
    /// What an answer would read.
    pub(crate) fn explain(
        &self,
        set: &PartSet,
        selection: Selection<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Explanation, Fault> {
        let listed = set.parts.iter();
        let mut explanation = Explanation {
            parts: set.parts.len() as u64,
            journals: listed.clone().filter(|part| part.memory.is_some()).count() as u64,
            row_groups: listed.map(|part| part.groups.len() as u64).sum(),
            threads: 1,
            ..Explanation::default()
        };
        (explanation.parts_pruned, explanation.row_groups_pruned) =
            (explanation.parts, explanation.row_groups);
        let Some(bound) = self.bind(set, selection, diagnostics)? else { return Ok(explanation) };
        let read = bound.plan.parts();
        explanation.parts_read = read.len() as u64;
        explanation.row_groups_read = read.iter().map(|part| part.groups.len() as u64).sum();
        explanation.parts_pruned -= explanation.parts_read;
        explanation.row_groups_pruned -= explanation.row_groups_read;
        let rows =
            read.iter().flat_map(|part| part.groups.iter().map(|group| part.part.groups[*group].rows as u64));
        explanation.rows_read = rows.sum();
        explanation.ranges = bound.plan.ranges() as u64;
        explanation.threads = threads().min(bound.plan.ranges()) as u64;
        explanation.columns = bound.spec.names();
        Ok(explanation)
    }

    /// The number of nodes.
    pub(crate) fn count(&self, set: &PartSet, diagnostics: &mut Vec<Diagnostic>) -> Result<u64, Fault> {
        let counting = Request { sort: Vec::new(), ..self.clone() };
        let Some(bound) = counting.bind(set, Selection::Keys(&[]), diagnostics)? else { return Ok(0) };
        let counts = fold_ranges(&bound.plan, Threads(threads()), None, |block, count: &mut u64| {
            *count += bound.folded(block, set).holds(&bound.spec, &bound.predicate).count() as u64;
            Ok(0)
        })?;
        let found = counts.iter().sum::<u64>();
        if self.latest {
            return Ok(found.min(1));
        }
        let limit = self.limit.map_or(u64::MAX, |limit| limit as u64);
        Ok(found.saturating_sub(self.offset as u64).min(limit))
    }

    /// The nodes with the selected values.
    pub(crate) fn rows(
        &self,
        reader: &ObjectReader,
        set: &PartSet,
        selection: Selection<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Vec<NodeRow>, Fault> {
        let Some(bound) = self.bind(set, selection, diagnostics)? else { return Ok(Vec::new()) };
        let orders = bound.orders();
        let gathered = fold_ranges(
            &bound.plan,
            Threads(threads()),
            self.enough(&bound),
            |block, range: &mut Gathered<NodeRow>| {
                let mut folded = bound.folded(block, set);
                let keep = folded.holds(&bound.spec, &bound.predicate);
                if keep.count() > 0 {
                    if self.is_sorted(&bound) {
                        range.keys.extend(bound.order_keys(&mut folded, &keep));
                    }
                    range.rows.extend(bound.rows(reader, &mut folded, &keep)?);
                    if self.is_sorted(&bound) {
                        self.trim(range, &orders);
                    }
                }
                Ok(range.rows.len())
            },
        )?;
        let mut all = Gathered::default();
        for range in gathered {
            all.rows.extend(range.rows);
            all.keys.extend(range.keys);
        }
        if !self.is_sorted(&bound) {
            return Ok(all
                .rows
                .into_iter()
                .skip(self.offset)
                .take(self.limit.unwrap_or(usize::MAX))
                .collect());
        }
        let mut rows: Vec<Option<NodeRow>> = all.rows.into_iter().map(Some).collect();
        let places = self.cut(self.order(&all.keys, &bound.orders()));
        Ok(places.into_iter().filter_map(|place| rows.get_mut(place).and_then(Option::take)).collect())
    }

    /// The nodes as record batches.
    pub(crate) fn table(
        &self,
        set: &PartSet,
        selection: Selection<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), Fault> {
        let keys: Vec<&str> = match selection {
            Selection::Keys(keys) => keys.to_vec(),
            Selection::Everything => set.fields.types.keys().map(|key| &**key).collect(),
        };
        let shown = ShownColumns::of_query(&keys, &set.fields);
        let schema = shown.schema();
        let Some(mut bound) = self.bind(set, selection, diagnostics)? else {
            return Ok((schema, Vec::new()));
        };
        bound.given.shown = shown;
        let inexact = std::sync::Mutex::new(Vec::new());
        let gathered = fold_ranges(
            &bound.plan,
            Threads(threads()),
            self.enough(&bound),
            |block, range: &mut Gathered<RecordBatch>| {
                let mut folded = bound.folded(block, set);
                let keep = folded.holds(&bound.spec, &bound.predicate);
                if keep.count() > 0 {
                    if self.is_sorted(&bound) {
                        range.keys.extend(bound.order_keys(&mut folded, &keep));
                    }
                    range.rows.push(bound.given.shown.batch(&mut folded, &bound.spec, &keep, &inexact)?);
                }
                Ok(range.rows.iter().map(RecordBatch::num_rows).sum())
            },
        )?;
        diagnostics.extend(inexact.into_inner().unwrap_or_default());
        let mut batches = Vec::new();
        let mut keys = Vec::new();
        for range in gathered {
            batches.extend(range.rows);
            keys.extend(range.keys);
        }
        if !self.is_sorted(&bound) {
            return Ok((schema, slice(batches, self.offset, self.limit.unwrap_or(usize::MAX))));
        }
        let places = self.cut(self.order(&keys, &bound.orders()));
        Ok((Arc::clone(&schema), rearrange(&schema, &batches, &places)?))
    }

    /// Whether the answer has the order of the identities.
    pub(crate) fn is_in_order(&self) -> bool {
        !self.latest && self.sort.is_empty()
    }

    /// Finds the columns of a request. `None` is an answer without rows.
    pub(crate) fn bind(
        &self,
        set: &PartSet,
        selection: Selection<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Option<Bound>, Fault> {
        let mut terms = self.terms.clone();
        let records = RecordScope::take(&mut terms)?;
        let scope = IdentityScope::of(&terms);
        let mut spec = FoldSpec::default();
        let mut binder =
            Binder { fields: &set.fields, spec: &mut spec, diagnostics, nothing: false, finished: false };
        let predicate = binder.conjuncts(&terms)?;
        let given = self.bind_selection(&mut binder, selection)?;
        short_nonces(set, &terms, binder.diagnostics);
        let sort: Vec<(BoundSort, Order)> = self
            .sort
            .iter()
            .filter_map(|(key, order)| Some((bind_sort(key, &mut binder)?, *order)))
            .collect();
        if self.strict {
            // In an or, and behind a not, an unknown key is only missing; here it is a mistake everywhere.
            let whole = Expr { term: Term::All(terms.clone()) };
            for key in whole.keys() {
                let (column, _) = side(key);
                if !binder.is_known(column) {
                    binder.diagnose_unknown(column);
                }
            }
        }
        if self.strict
            && let Some(unknown) = binder.diagnostics.iter().find(|diagnostic| diagnostic.is_unknown())
        {
            return Err(QueryError::Unknown { what: unknown.clone() }.into());
        }
        if binder.nothing {
            return Ok(None);
        }
        let finished = if binder.finished { finished_runs(set, &scope)? } else { HashSet::new() };
        spec.written = self.latest
            || sort.iter().any(|(key, _)| matches!(key, BoundSort::Written))
            || selection != Selection::Keys(&[]);
        let required: Vec<&str> = terms.iter().filter_map(Term::required).map(|key| side(key).0).collect();
        let plan = FoldPlan::requiring(set, spec.clone(), scope, records, threads(), &required)?;
        let plan = Arc::new(plan);
        Ok(Some(Bound { spec, plan, predicate, finished, given, sort }))
    }

    fn bind_selection(&self, binder: &mut Binder<'_>, selection: Selection<'_>) -> Result<Given, Fault> {
        let mut given = Given::default();
        let keys = match selection {
            Selection::Keys(keys) => keys,
            Selection::Everything => {
                let names = binder.fields.types.keys().map(|key| &**key);
                let reserved = RESERVED.iter().map(|column| column.name).filter(|_| self.raw);
                for name in names.chain(reserved).collect::<Vec<_>>() {
                    given.fields.push((name.to_owned(), binder.spec.column(name), Side::All));
                }
                return Ok(given);
            }
        };
        for key in keys {
            if *key == BLOB_KEY {
                given.blob = Some(binder.spec.column(BLOB));
                continue;
            }
            let (column, side) = side(field_key(key));
            if column.starts_with(RESERVED_PREFIX) && !self.raw {
                return Err(QueryError::Reserved { key: column.to_owned() }.into());
            }
            let reserved = RESERVED.iter().any(|reserved| reserved.name == column);
            if !reserved && !binder.is_known(column) {
                binder.nothing = true;
                binder.diagnose_unknown(column);
            }
            given.fields.push((field_key(key).to_owned(), binder.spec.column(column), side));
        }
        Ok(given)
    }

    /// Whether the answer has another order than that of the identities.
    fn is_sorted(&self, bound: &Bound) -> bool {
        self.latest || !bound.sort.is_empty()
    }

    /// How many rows in the order of the identities are enough, where that is the order of the answer.
    fn enough(&self, bound: &Bound) -> Option<usize> {
        self.limit.filter(|_| !self.is_sorted(bound))?.checked_add(self.offset)
    }

    /// The places of rows, which stand in the order of the identities, in the order of the answer.
    fn order(&self, keys: &[OrderKey], orders: &[Order]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..keys.len()).collect();
        if self.latest {
            places.sort_by(|one, other| {
                let newest = |place: &usize| (keys[*place].written, keys[*place].seq);
                newest(other).cmp(&newest(one))
            });
        } else {
            places.sort_by(|one, other| {
                let pairs = keys[*one].sorts().zip(keys[*other].sorts()).zip(orders);
                pairs.fold(Ordering::Equal, |so_far, ((one, other), order)| {
                    so_far.then_with(|| one.compare(other, *order))
                })
            });
        }
        places
    }

    fn cut(&self, mut places: Vec<usize>) -> Vec<usize> {
        if self.latest {
            places.truncate(1);
            return places;
        }
        places.drain(..self.offset.min(places.len()));
        places.truncate(self.limit.unwrap_or(usize::MAX));
        places
    }

    /// Of a sorted answer only the first rows of a range can be among the first of all.
    fn trim(&self, range: &mut Gathered<NodeRow>, orders: &[Order]) {
        let limit = if self.latest { Some(1) } else { self.limit };
        let Some(keep) = limit.and_then(|limit| limit.checked_add(self.offset)) else { return };
        if range.rows.len() < keep.saturating_mul(2).max(MIN_TRIMMED_ROWS) {
            return;
        }
        let mut places = self.order(&range.keys, orders);
        places.truncate(keep);
        let kept: HashSet<usize> = places.into_iter().collect();
        let mut place = 0;
        range.rows.retain(|_| {
            place += 1;
            kept.contains(&(place - 1))
        });
        place = 0;
        range.keys.retain(|_| {
            place += 1;
            kept.contains(&(place - 1))
        });
    }
}

/// What a key to sort by is; `None` for a field that nobody recorded, which is told.
fn bind_sort(key: &SortKey, binder: &mut Binder<'_>) -> Option<BoundSort> {
    match key {
        SortKey::Name => Some(BoundSort::Name),
        SortKey::Nonce => Some(BoundSort::Nonce),
        SortKey::Seq => Some(BoundSort::Seq),
        SortKey::Written => Some(BoundSort::Written),
        SortKey::Field(key) => {
            let (column, side) = side(key);
            if binder.is_known(column) {
                return Some(BoundSort::Column(binder.spec.column(column), side));
            }
            let names = binder.fields.types.keys().map(|key| &**key);
            let diagnostic = Diagnostic::UnknownSortKey { key: key.clone(), nearest: nearest(column, names) };
            binder.diagnostics.push(diagnostic);
            None
        }
    }
}

impl Bound {
    /// In which order each key sorts.
    fn orders(&self) -> Vec<Order> {
        self.sort.iter().map(|(_, order)| *order).collect()
    }

    pub(crate) fn folded<'a>(&'a self, block: &'a Block, set: &'a PartSet) -> Folded<'a> {
        Folded::new(block, &self.spec, &set.fields, &self.finished)
    }

    fn order_keys(&self, folded: &mut Folded<'_>, keep: &Bits) -> Vec<OrderKey> {
        let block = folded.block;
        let (_, written) = block.writes();
        let mut keys: Vec<OrderKey> = Vec::with_capacity(keep.count());
        for (_, slots) in block.runs() {
            for slot in slots.filter(|slot| keep.get(*slot)) {
                let (written, seq) = (written[slot], block.seqs()[slot]);
                keys.push(OrderKey { first: None, more: Vec::new(), written, seq });
            }
        }
        for (by, _) in &self.sort {
            match *by {
                BoundSort::Name | BoundSort::Nonce => {
                    let mut rows = keys.iter_mut();
                    for (run, slots) in block.runs() {
                        let text = if matches!(by, BoundSort::Name) { &run.name } else { &run.nonce };
                        let kept = slots.filter(|slot| keep.get(*slot)).count();
                        rows.by_ref().take(kept).for_each(|key| key.push(SortValue::Text(Arc::clone(text))));
                    }
                }
                BoundSort::Seq => {
                    keys.iter_mut().for_each(|key| key.push(SortValue::of(Some(Value::Int(key.seq)))));
                }
                BoundSort::Written => keys.iter_mut().for_each(|key| {
                    let written = Some(key.written).filter(|written| *written != i64::MIN);
                    key.push(SortValue::of(written.map(Value::Int)));
                }),
                BoundSort::Column(column, side) => {
                    let column = folded.column(&self.spec, column);
                    for (slot, key) in keep.places().zip(&mut keys) {
                        key.push(SortValue::of(column.get(slot).filter(|value| side.takes(*value))));
                    }
                }
            }
        }
        keys
    }

    fn rows(
        &self,
        reader: &ObjectReader,
        folded: &mut Folded<'_>,
        keep: &Bits,
    ) -> Result<Vec<NodeRow>, Fault> {
        let (_, written) = folded.block.writes();
        let mut rows = Vec::with_capacity(keep.count());
        for (run, slots) in folded.block.runs() {
            let base = run.node()?;
            for slot in slots.filter(|slot| keep.get(*slot)) {
                let node = base.at(folded.block.seqs()[slot].cast_unsigned()).map_err(impossible)?;
                let written = Some(written[slot]).filter(|write| *write != i64::MIN);
                rows.push(NodeRow { node, written, fields: BTreeMap::new() });
            }
        }
        for (key, column, side) in &self.given.fields {
            let column = folded.column(&self.spec, *column);
            if column.is_absent() {
                continue;
            }
            for (slot, row) in keep.places().zip(&mut rows) {
                if let Some(value) = column.get(slot).filter(|value| side.takes(*value)) {
                    row.fields.insert(key.clone(), value.to_scalar());
                }
            }
        }
        if let Some(column) = self.given.blob {
            let column = folded.column(&self.spec, column);
            for (slot, row) in keep.places().zip(&mut rows) {
                if let Some(Value::Text(recorded)) = column.get(slot) {
                    let path = reader.blob_path(&row.node, recorded)?;
                    row.fields.insert(BLOB_KEY.to_owned(), Scalar::Text(path.to_string_lossy().into_owned()));
                }
            }
        }
        Ok(rows)
    }
}

fn impossible(error: waycairn_dag::AddressError) -> Fault {
    Fault::Error(QueryError::Thread { what: error.to_string() })
}

impl RunKey {
    /// The first node of the run. Runs of parts were checked when they were read.
    pub(crate) fn node(&self) -> Result<Node, Fault> {
        Node::new(&self.name, &self.nonce, 0).map_err(impossible)
    }
}

/// Puts the rows of batches into an order, which may leave some out.
fn rearrange(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    places: &[usize],
) -> Result<Vec<RecordBatch>, Fault> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| Fault::answer("sort", error);
    let whole = concat_batches(schema, batches).map_err(failed)?;
    let places = UInt64Array::from_iter_values(places.iter().map(|place| *place as u64));
    Ok(vec![take_record_batch(&whole, &places).map_err(failed)?])
}

/// The rows from `start` on, without a copy.
fn slice(batches: Vec<RecordBatch>, start: usize, count: usize) -> Vec<RecordBatch> {
    let (mut skip, mut left) = (start, count);
    let mut kept = Vec::new();
    for batch in batches {
        let from = skip.min(batch.num_rows());
        let rows = (batch.num_rows() - from).min(left);
        skip -= from;
        left -= rows;
        if rows > 0 {
            kept.push(batch.slice(from, rows));
        }
    }
    kept
}
