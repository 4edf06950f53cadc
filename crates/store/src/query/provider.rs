//! The tables of SQL: `nodes`, the fold as an execution plan, and `records`, the rows of the parts.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream;

use crate::listing::PartSet;
use crate::query::Diagnostic;
use crate::query::bits::Bits;
use crate::query::condition::Condition;
use crate::query::expression::Comparison;
use crate::query::fault::Fault;
use crate::query::merge::Merge;
use crate::query::plan::FoldPlan;
use crate::query::predicate::Folded;
use crate::query::records::{RecordColumns, Records};
use crate::query::scope::{IdentityScope, RecordScope};
use crate::query::shown::ShownColumns;
use crate::query::spec::FoldSpec;
use crate::schema::{NAME, NONCE, SEQ};

/// What happened inside of an execution, for the caller outside of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    fault: Arc<Mutex<Option<Fault>>>,
    pub(crate) inexact: Arc<Mutex<Vec<Diagnostic>>>,
}

impl Reports {
    /// Keeps the first fault and gives the error that ends the execution.
    fn fail(&self, fault: Fault) -> DataFusionError {
        let text = fault.to_string();
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        DataFusionError::Execution(text)
    }

    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A table over one listing.
#[derive(Debug)]
pub(crate) struct Parts {
    set: PartSet,
    columns: Columns,
    schema: SchemaRef,
    reports: Reports,
}

/// What a table shows.
#[derive(Clone, Debug)]
enum Columns {
    /// Those of the nodes for which a condition holds.
    Nodes(ShownColumns, Option<Arc<Condition>>),
    Records(RecordColumns),
}

impl Parts {
    /// The table of the folded nodes.
    pub(crate) fn nodes(set: &PartSet, reports: &Reports) -> Parts {
        let shown = ShownColumns::of_nodes(&set.fields);
        let schema = shown.schema();
        Parts { set: set.clone(), columns: Columns::Nodes(shown, None), schema, reports: reports.clone() }
    }

    /// The table of the rows as they are.
    pub(crate) fn records(set: &PartSet, reports: &Reports) -> Parts {
        let columns = RecordColumns::new(&set.fields);
        let schema = columns.schema();
        Parts { set: set.clone(), columns: Columns::Records(columns), schema, reports: reports.clone() }
    }

    /// The names of the columns of the identity.
    fn identity(&self) -> [&'static str; 3] {
        match self.columns {
            Columns::Nodes(..) => ["name", "nonce", "seq"],
            Columns::Records(_) => [NAME, NONCE, SEQ],
        }
    }

    fn plan_scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let partitions = session.config().target_partitions();
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let places = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(places)?);
        let mut scope = IdentityScope::default();
        for filter in filters {
            narrow(&mut scope, filter, self.identity());
        }
        let mut spec = FoldSpec::default();
        let columns = match &self.columns {
            Columns::Nodes(all, _) => {
                let shown = all.project(places);
                shown.need(&mut spec);
                let condition = Condition::new(session, filters, all)?.map(Arc::new);
                condition.iter().for_each(|condition| condition.need(&mut spec));
                Columns::Nodes(shown, condition)
            }
            Columns::Records(records) => {
                let records = records.project(places);
                records.need(&mut spec);
                Columns::Records(records)
            }
        };
        let required = match &columns {
            Columns::Nodes(_, Some(condition)) => condition.required(),
            _ => Vec::new(),
        };
        let records = RecordScope::default();
        let plan = FoldPlan::requiring(&self.set, spec.clone(), scope, records, partitions, &required)
            .map_err(|fault| self.reports.fail(fault))?;
        let units = match &columns {
            Columns::Nodes(..) => plan.ranges(),
            Columns::Records(_) => plan.parts().len(),
        };
        let properties = properties(&schema, units.clamp(1, partitions.max(1)), &columns);
        Ok(Arc::new(PartsExec {
            set: self.set.clone(),
            plan: Arc::new(plan),
            spec: Arc::new(spec),
            columns,
            schema,
            limit,
            units,
            properties: Arc::new(properties),
            reports: self.reports.clone(),
        }))
    }
}

/// The nodes of each partition come in the order of their identities.
fn properties(schema: &SchemaRef, partitions: usize, columns: &Columns) -> PlanProperties {
    let mut ordering: Vec<PhysicalSortExpr> = Vec::new();
    if let Columns::Nodes(..) = columns {
        for name in ["name", "nonce", "seq"] {
            let Ok(index) = schema.index_of(name) else { break };
            let options = SortOptions { descending: false, nulls_first: false };
            ordering.push(PhysicalSortExpr { expr: Arc::new(Column::new(name, index)), options });
        }
    }
    let orderings = if ordering.is_empty() { Vec::new() } else { vec![ordering] };
    PlanProperties::new(
        EquivalenceProperties::new_with_orderings(Arc::clone(schema), orderings),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

/// Narrows a scope by a filter on the identity; other filters are left to the plan above.
fn narrow(scope: &mut IdentityScope, filter: &Expr, identity: [&str; 3]) {
    let [name, nonce, seq] = identity;
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            narrow(scope, left, identity);
            narrow(scope, right, identity);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, operator, value) = match (left.as_ref(), right.as_ref()) {
                (Expr::Column(column), Expr::Literal(value, _)) => (column, Some(*op), value),
                (Expr::Literal(value, _), Expr::Column(column)) => (column, op.swap(), value),
                _ => return,
            };
            let (Some(operator), column) = (operator, column.name.as_str()) else { return };
            match (operator, text(value), whole(value)) {
                (Operator::Eq, Some(text), _) if column == name => scope.add_names([text]),
                (Operator::Eq, Some(text), _) if column == nonce => scope.add_nonces([text]),
                (operator, _, Some(number)) if column == seq => {
                    let comparison = match operator {
                        Operator::Eq => Comparison::Equal,
                        Operator::Lt => Comparison::Less,
                        Operator::LtEq => Comparison::LessOrEqual,
                        Operator::Gt => Comparison::Greater,
                        Operator::GtEq => Comparison::GreaterOrEqual,
                        _ => return,
                    };
                    scope.add_seq(comparison, number);
                }
                _ => {}
            }
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = expr.as_ref() else { return };
            let literal = |expr: &Expr| match expr {
                Expr::Literal(value, _) => text(value),
                _ => None,
            };
            let Some(texts) = list.iter().map(literal).collect::<Option<Vec<_>>>() else { return };
            if column.name == name {
                scope.add_names(texts);
            } else if column.name == nonce {
                scope.add_nonces(texts);
            }
        }
        _ => {}
    }
}

fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.clone(),
        _ => None,
    }
}

fn whole(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int64(number) => *number,
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::UInt64(number) => i64::try_from((*number)?).ok(),
        _ => None,
    }
}

impl TableProvider for Parts {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn scan<'provider, 'session, 'projection, 'filters, 'async_trait>(
        &'provider self,
        session: &'session dyn Session,
        projection: Option<&'projection Vec<usize>>,
        filters: &'filters [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = DataFusionResult<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        'provider: 'async_trait,
        'session: 'async_trait,
        'projection: 'async_trait,
        'filters: 'async_trait,
        Self: 'async_trait,
    {
        let plan = self.plan_scan(session, projection, filters, limit);
        Box::pin(std::future::ready(plan))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let identity = self.identity();
        let on_identity = |filter: &&Expr| {
            let columns = filter.column_refs();
            !columns.is_empty() && columns.iter().all(|column| identity.contains(&column.name.as_str()))
        };
        let answers = filters.iter().map(|filter| match &self.columns {
            Columns::Nodes(..) if Condition::takes(filter) => TableProviderFilterPushDown::Exact,
            // Inexact: what is read is narrowed, and the plan above still looks at every row.
            Columns::Records(_) if on_identity(filter) => TableProviderFilterPushDown::Inexact,
            _ => TableProviderFilterPushDown::Unsupported,
        });
        Ok(answers.collect())
    }
}

/// The fold, or the rows as they are, as an operator of DataFusion.
struct PartsExec {
    set: PartSet,
    plan: Arc<FoldPlan>,
    spec: Arc<FoldSpec>,
    columns: Columns,
    schema: SchemaRef,
    limit: Option<usize>,
    /// Ranges of identities, or parts; a partition takes a run of them.
    units: usize,
    properties: Arc<PlanProperties>,
    reports: Reports,
}

impl PartsExec {
    /// The units of a partition.
    fn share(&self, partition: usize) -> std::ops::Range<usize> {
        let partitions = self.properties.output_partitioning().partition_count();
        self.units * partition / partitions..self.units * (partition + 1) / partitions
    }
}

impl fmt::Debug for PartsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsExec").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, parts) = match self.columns {
            Columns::Nodes(..) => ("FoldExec", self.plan.parts().len()),
            Columns::Records(_) => ("RecordsExec", self.plan.parts().len()),
        };
        let fields = self.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        write!(f, "{what}: parts={parts}, ranges={}, columns=[{}]", self.plan.ranges(), fields.join(", "))?;
        match &self.columns {
            Columns::Nodes(_, Some(condition)) => write!(f, ", condition={condition}"),
            _ => Ok(()),
        }
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let units = self.share(partition);
        let limit = self.limit.unwrap_or(usize::MAX);
        let reports = self.reports.clone();
        let batches: Box<dyn Iterator<Item = Result<RecordBatch, Fault>> + Send> = match &self.columns {
            Columns::Nodes(shown, condition) => Box::new(NodeBatches {
                set: self.set.clone(),
                plan: Arc::clone(&self.plan),
                spec: Arc::clone(&self.spec),
                shown: shown.clone(),
                condition: condition.clone(),
                ranges: units,
                merge: None,
                reports: reports.clone(),
            }),
            Columns::Records(columns) => {
                Box::new(Records::new(&self.plan, columns.clone(), units, Arc::clone(&reports.inexact)))
            }
        };
        let mut rows = 0;
        let limited = batches.take_while(move |batch| {
            let more = rows < limit;
            rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
            more
        });
        let checked = limited.map(move |batch| batch.map_err(|fault| reports.fail(fault)));
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter(checked));
        Ok(Box::pin(stream))
    }
}

/// The folded nodes of some ranges as batches.
struct NodeBatches {
    set: PartSet,
    plan: Arc<FoldPlan>,
    spec: Arc<FoldSpec>,
    shown: ShownColumns,
    condition: Option<Arc<Condition>>,
    ranges: std::ops::Range<usize>,
    merge: Option<Merge>,
    reports: Reports,
}

impl NodeBatches {
    /// A fault, and nothing after it.
    fn end(&mut self, fault: Fault) -> Option<Result<RecordBatch, Fault>> {
        self.ranges = 0..0;
        self.merge = None;
        Some(Err(fault))
    }
}

impl Iterator for NodeBatches {
    type Item = Result<RecordBatch, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let merge = match &mut self.merge {
                Some(merge) => merge,
                None => self.merge.insert(Merge::new(&self.plan, self.ranges.next()?)),
            };
            match merge.next_block() {
                Ok(Some(block)) => {
                    let finished = std::collections::HashSet::new();
                    let mut folded = Folded::new(&block, &self.spec, &self.set.fields, &finished);
                    let inexact = &self.reports.inexact;
                    let keep = match &self.condition {
                        Some(condition) => condition.holds(&mut folded, &self.spec, inexact),
                        None => Ok(Bits::ones(block.len())),
                    };
                    match keep {
                        Ok(keep) if keep.count() == 0 => {}
                        Ok(keep) => return Some(self.shown.batch(&mut folded, &self.spec, &keep, inexact)),
                        Err(fault) => return self.end(fault),
                    }
                }
                Ok(None) => self.merge = None,
                Err(fault) => return self.end(fault),
            }
        }
    }
}
