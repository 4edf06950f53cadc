//! The builder of a question, and its answers.

use std::collections::BTreeMap;
use std::mem;
use std::ops::RangeInclusive;

use waycairn_dag::Node;

use crate::export::Table;
use crate::field::Scalar;
use crate::query::expression::{Comparison, Expr};
use crate::query::request::{Explanation, Request, Selection};
use crate::query::sort::{Order, SortKey};
use crate::query::stream::BatchStream;
use crate::query::{Diagnostic, QueryError};
use crate::reader::ObjectReader;

/// An answer, with what its reader should know about it.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// What is remarkable: unknown names, skipped parts.
    pub diagnostics: Vec<Diagnostic>,
}

/// A node with its folded values.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// The node, without a parent.
    pub node: Node,
    /// The last write among its records, in nanoseconds since 1970.
    pub written: Option<i64>,
    /// The fields that have a value, each with its own type.
    pub fields: BTreeMap<String, Scalar>,
}

/// A question in the making.
///
/// Conditions add up. A question that was executed is spent: executed again, it asks for everything.
///
/// ```
/// use waycairn_store::{Comparison, ObjectReader, Order};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let reader = ObjectReader::open(root.path())?;
/// let best = reader
///     .query()
///     .name("shakespeare")
///     .field("val/loss").compare(Comparison::Less, 2.0)
///     .sort("val/loss", Order::Ascending)
///     .limit(3)
///     .select(&["train/loss", "val/loss"])?;
/// assert!(best.value.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    reader: ObjectReader,
    request: Request,
}

/// A condition on one field in the making.
#[derive(Debug)]
pub struct FieldFilter<'a> {
    query: &'a mut Query,
    key: String,
}

impl<'a> FieldFilter<'a> {
    /// Keeps nodes whose folded value compares so with `value`.
    pub fn compare(self, comparison: Comparison, value: impl Into<Scalar>) -> &'a mut Query {
        let expr = Expr::compare(&self.key, comparison, value);
        self.query.expression(expr)
    }

    /// Keeps nodes whose folded value equals one of `values`.
    pub fn any_of(self, values: impl IntoIterator<Item = impl Into<Scalar>>) -> &'a mut Query {
        let expr = Expr::any_of(&self.key, values);
        self.query.expression(expr)
    }
}

impl Query {
    pub(crate) fn new(reader: ObjectReader) -> Query {
        Query::of(reader, Request::default())
    }

    pub(crate) fn of(reader: ObjectReader, request: Request) -> Query {
        Query { reader, request }
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Keeps nodes for which an expression holds.
    pub fn expression(&mut self, expr: Expr) -> &mut Query {
        self.request.terms.extend(expr.term.into_conjuncts());
        self
    }

    /// Keeps one node.
    pub fn node(&mut self, node: &Node) -> &mut Query {
        self.expression(Expr::node(node))
    }

    /// Keeps nodes of this name.
    pub fn name(&mut self, name: &str) -> &mut Query {
        self.expression(Expr::name(name))
    }

    /// Keeps nodes of this nonce.
    pub fn nonce(&mut self, nonce: &str) -> &mut Query {
        self.expression(Expr::nonce(nonce))
    }

    /// Keeps nodes at this position.
    pub fn seq(&mut self, seq: u64) -> &mut Query {
        self.expression(Expr::seq(Comparison::Equal, seq))
    }

    /// Keeps nodes at these positions, both ends included.
    pub fn seq_range(&mut self, seqs: RangeInclusive<u64>) -> &mut Query {
        self.expression(Expr::seq(Comparison::GreaterOrEqual, *seqs.start()))
            .expression(Expr::seq(Comparison::LessOrEqual, *seqs.end()))
    }

    /// Keeps nodes whose name has the form `<project>.<group>.<run>` with these parts.
    pub fn project(&mut self, project: Option<&str>, group: Option<&str>, run: Option<&str>) -> &mut Query {
        self.expression(Expr::project(project, group, run))
    }

    /// Begins a condition on a folded field.
    pub fn field(&mut self, key: &str) -> FieldFilter<'_> {
        FieldFilter { query: self, key: key.to_owned() }
    }

    /// Keeps nodes with a value of `key`.
    pub fn has(&mut self, key: &str) -> &mut Query {
        self.expression(Expr::has(key))
    }

    /// Keeps nodes without a value of `key`.
    pub fn missing(&mut self, key: &str) -> &mut Query {
        self.expression(Expr::missing(key))
    }

    /// Keeps nodes with a checkpoint.
    pub fn checkpoint(&mut self) -> &mut Query {
        self.expression(Expr::checkpoint())
    }

    /// Keeps nodes with an artifact.
    pub fn artifact(&mut self) -> &mut Query {
        self.expression(Expr::artifact())
    }

    /// Keeps nodes with the artifact of this suffix.
    pub fn artifact_named(&mut self, suffix: &str) -> &mut Query {
        self.expression(Expr::artifact_named(suffix))
    }

    /// Keeps nodes with a record of this job, `<experiment>@<version>`.
    pub fn job(&mut self, job: &str) -> &mut Query {
        self.expression(Expr::job(job))
    }

    /// Keeps nodes whose run, over all of its records, has a finish marker, or has none.
    pub fn finished(&mut self, finished: bool) -> &mut Query {
        self.expression(Expr::finished(finished))
    }

    /// Folds only the records of this execution.
    pub fn execution(&mut self, execution: &str) -> &mut Query {
        self.expression(Expr::execution(execution))
    }

    /// Folds only the records with this tag.
    pub fn tag(&mut self, tag: &str) -> &mut Query {
        self.expression(Expr::tag(tag))
    }

    /// Folds only the records of the process with this index.
    pub fn process(&mut self, process: i64) -> &mut Query {
        self.expression(Expr::process(process))
    }

    /// Folds only the records with `from <= write < until`, in nanoseconds since 1970.
    pub fn written_between(&mut self, from: i64, until: i64) -> &mut Query {
        self.expression(Expr::written_between(from, until))
    }

    /// Sorts the answer. Called again, it sorts what ties by a further key. What ties in all of them, and an answer
    /// without a key, stands in the order of the identities.
    pub fn sort(&mut self, key: impl Into<SortKey>, order: Order) -> &mut Query {
        self.request.sort.push((key.into(), order));
        self
    }

    /// Makes it an error when a key is unknown that is selected, compared or sorted by. Otherwise it is a
    /// [`Diagnostic`].
    pub fn strict(&mut self) -> &mut Query {
        self.request.strict = true;
        self
    }

    /// Keeps the node that was written last: the newest write among its records, then the largest position, then
    /// the first identity. That is not the largest position: an artifact may have been added to an old node.
    pub fn latest(&mut self) -> &mut Query {
        self.request.latest = true;
        self
    }

    /// Keeps this many nodes.
    pub fn limit(&mut self, nodes: usize) -> &mut Query {
        self.request.limit = Some(nodes);
        self
    }

    /// Leaves out this many nodes at the beginning.
    pub fn offset(&mut self, nodes: usize) -> &mut Query {
        self.request.offset = nodes;
        self
    }

    /// Allows the store's own columns, `_x_*`, in [`select`](Query::select), and has
    /// [`select_all`](Query::select_all) give them too.
    pub fn raw(&mut self) -> &mut Query {
        self.request.raw = true;
        self
    }

    /// Says what [`select`](Query::select) would read, and reads nothing but footers.
    ///
    /// # Errors
    /// As for `select`.
    pub fn explain(&mut self, keys: &[&str]) -> Result<Answer<Explanation>, QueryError> {
        let (request, reader) = (mem::take(&mut self.request), &self.reader);
        reader.ask(|set, diagnostics| request.explain(set, Selection::Keys(keys), diagnostics))
    }

    /// The nodes.
    ///
    /// # Errors
    /// Any [`QueryError`]; in particular a damaged part is one, unless the reader skips such.
    pub fn all(&mut self) -> Result<Answer<Vec<Node>>, QueryError> {
        let answer = self.rows(Selection::Keys(&[]))?;
        let nodes = answer.value.into_iter().map(|row| row.node).collect();
        Ok(Answer { value: nodes, diagnostics: answer.diagnostics })
    }

    /// The first of the nodes.
    ///
    /// # Errors
    /// As [`all`](Query::all).
    pub fn first(&mut self) -> Result<Answer<Option<Node>>, QueryError> {
        self.request.limit = Some(self.request.limit.unwrap_or(1).min(1));
        let answer = self.all()?;
        Ok(Answer { value: answer.value.into_iter().next(), diagnostics: answer.diagnostics })
    }

    /// The number of nodes.
    ///
    /// # Errors
    /// As [`all`](Query::all).
    pub fn count(&mut self) -> Result<Answer<u64>, QueryError> {
        let request = mem::take(&mut self.request);
        self.reader.ask(|set, diagnostics| request.count(set, diagnostics))
    }

    /// The nodes with the values of these fields. A value that a node lacks is absent from its row.
    ///
    /// A key is a field, `blob` (the folder of the node's blob under this root), a field after `field:` where its
    /// name is such a word, or, after [`raw`](Query::raw), a column of the store.
    ///
    /// # Errors
    /// As [`all`](Query::all).
    pub fn select(&mut self, keys: &[&str]) -> Result<Answer<Vec<NodeRow>>, QueryError> {
        self.rows(Selection::Keys(keys))
    }

    /// The nodes with all of their fields.
    ///
    /// # Errors
    /// As [`all`](Query::all).
    pub fn select_all(&mut self) -> Result<Answer<Vec<NodeRow>>, QueryError> {
        self.rows(Selection::Everything)
    }

    /// The nodes as Arrow record batches with the columns `node`, `name`, `nonce`, `seq`, and for each key what
    /// it shows: `key` for numbers, `key::text` where a text occurs. No keys mean all fields.
    ///
    /// # Errors
    /// As [`all`](Query::all).
    pub fn batches(&mut self, keys: &[&str]) -> Result<Table, QueryError> {
        let request = mem::take(&mut self.request);
        let selection = if keys.is_empty() { Selection::Everything } else { Selection::Keys(keys) };
        let answer = self.reader.ask(|set, diagnostics| request.table(set, selection, diagnostics))?;
        let (schema, batches) = answer.value;
        Ok(Table { schema, batches, diagnostics: answer.diagnostics })
    }

    /// The nodes as [`batches`](Query::batches) gives them, one batch after the other, so that an answer may be larger than
    /// memory. An answer that is sorted by anything but the identity is made whole first.
    ///
    /// ```
    /// use waycairn_store::ObjectReader;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let root = tempfile::tempdir()?;
    /// let reader = ObjectReader::open(root.path())?;
    /// let mut rows = 0;
    /// for batch in reader.query().name("shakespeare").stream(&["train/loss"])? {
    ///     rows += batch?.num_rows();
    /// }
    /// assert_eq!(rows, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`all`](Query::all); what goes wrong later is an error of the stream, and its last item.
    ///
    /// # Concurrency
    /// Each batch is folded on the thread that asks for it. What is recorded meanwhile may be in the batches that are still to
    /// come.
    pub fn stream(&mut self, keys: &[&str]) -> Result<BatchStream, QueryError> {
        let request = mem::take(&mut self.request);
        BatchStream::new(self.reader.clone(), request, keys)
    }

    fn rows(&mut self, selection: Selection<'_>) -> Result<Answer<Vec<NodeRow>>, QueryError> {
        let request = mem::take(&mut self.request);
        let reader = &self.reader;
        reader.ask(|set, diagnostics| request.rows(reader, set, selection, diagnostics))
    }
}
