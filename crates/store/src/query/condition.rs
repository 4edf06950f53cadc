//! What a statement asks of nodes, looked at while they are folded.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;

use crate::query::Diagnostic;
use crate::query::bits::Bits;
use crate::query::fault::Fault;
use crate::query::predicate::Folded;
use crate::query::shown::ShownColumns;
use crate::query::spec::FoldSpec;
use crate::query::sql::failed;

/// The filters of a scan of `nodes`, evaluated by DataFusion on the folded columns that they name: of a block in which they
/// hold nowhere, nothing else is folded.
#[derive(Debug)]
pub(crate) struct Condition {
    named: ShownColumns,
    filter: Arc<dyn PhysicalExpr>,
    required: Vec<Arc<str>>,
}

impl Condition {
    /// Whether a filter can be looked at row by row, with nothing but the row.
    pub(crate) fn takes(filter: &Expr) -> bool {
        let asks_elsewhere = |expr: &Expr| {
            Ok(matches!(
                expr,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
            ))
        };
        !filter.column_refs().is_empty()
            && !filter.is_volatile()
            && filter.exists(asks_elsewhere).is_ok_and(|elsewhere| !elsewhere)
    }

    /// All of some filters over the columns of a table; `None` where there are none.
    ///
    /// # Errors
    /// What DataFusion says of the filters.
    pub(crate) fn new(
        session: &dyn Session,
        filters: &[Expr],
        columns: &ShownColumns,
    ) -> DataFusionResult<Option<Condition>> {
        let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(None) };
        let names: HashSet<&str> = filter.column_refs().iter().map(|column| column.name.as_str()).collect();
        let named = columns.only(&names);
        let required = required(&filter, columns).into_iter().collect();
        let schema = DFSchema::try_from(named.schema())?;
        let filter = session.create_physical_expr(filter, &schema)?;
        Ok(Some(Condition { named, filter, required }))
    }

    /// Adds what it looks at to a fold.
    pub(crate) fn need(&self, spec: &mut FoldSpec) {
        self.named.need(spec);
    }

    /// The fields that a node has for which it holds.
    pub(crate) fn required(&self) -> Vec<&str> {
        self.required.iter().map(|key| &**key).collect()
    }

    /// The nodes for which it holds.
    ///
    /// # Errors
    /// What DataFusion says, a division by zero say.
    pub(crate) fn holds(
        &self,
        folded: &mut Folded<'_>,
        spec: &FoldSpec,
        inexact: &Mutex<Vec<Diagnostic>>,
    ) -> Result<Bits, Fault> {
        let all = Bits::ones(folded.block.len());
        let batch = self.named.batch(folded, spec, &all, inexact)?;
        let answer = self.filter.evaluate(&batch).and_then(|answer| answer.into_array(batch.num_rows()));
        let answer = answer.map_err(|error| Fault::Error(failed(error)))?;
        let Some(holds) = answer.as_boolean_opt() else {
            let what = format!("a condition answers {}", answer.data_type());
            return Err(Fault::Error(failed(DataFusionError::Plan(what))));
        };
        Ok(Bits::from_fn(holds.len(), |slot| holds.is_valid(slot) && holds.value(slot)))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)
    }
}

/// The fields without a value of which a filter holds for no node: a comparison with null is null.
fn required(filter: &Expr, columns: &ShownColumns) -> BTreeSet<Arc<str>> {
    let field = |expr: &Expr| {
        let expr = if let Expr::Cast(Cast { expr, .. }) = expr { expr.as_ref() } else { expr };
        let Expr::Column(column) = expr else { return None };
        columns.key(&column.name).cloned()
    };
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => &required(left, columns) | &required(right, columns),
            Operator::Or => &required(left, columns) & &required(right, columns),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => [left, right].into_iter().filter_map(|side| field(side)).collect(),
            _ => BTreeSet::new(),
        },
        Expr::IsNotNull(expr)
        | Expr::Between(Between { expr, .. })
        | Expr::InList(InList { expr, .. })
        | Expr::Like(Like { expr, .. }) => field(expr).into_iter().collect(),
        _ => BTreeSet::new(),
    }
}
