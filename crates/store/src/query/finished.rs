//! Which runs have a finish marker.

use std::collections::HashSet;
use std::sync::Arc;

use crate::listing::PartSet;
use crate::published::RunKey;
use crate::query::engine::{Threads, fold_ranges};
use crate::query::fault::Fault;
use crate::query::plan::FoldPlan;
use crate::query::scope::{IdentityScope, RecordScope};
use crate::query::spec::{Flag, FoldSpec};
use crate::schema::FINISHED;

/// Finds the finished runs among those in scope. All of their records count, whatever else a query restricts:
/// a run is finished or not. Only parts with the marker's column are read, and of these only the identity.
pub(crate) fn finished_runs(set: &PartSet, scope: &IdentityScope) -> Result<HashSet<RunKey>, Fault> {
    let marked = set.parts.iter().filter(|part| part.schema.column(FINISHED).is_some());
    let set = PartSet { parts: marked.cloned().collect(), ..set.clone() };
    let mut spec = FoldSpec::default();
    let flag = spec.flag(&Flag::True(FINISHED));
    let plan = FoldPlan::new(&set, spec, scope.of_runs(), RecordScope::default(), 1)?;
    let runs = fold_ranges(&Arc::new(plan), Threads(1), None, |block, runs: &mut HashSet<RunKey>| {
        let marked = block.flag(flag);
        for (run, mut slots) in block.runs() {
            if slots.any(|slot| marked.get(slot)) {
                runs.insert(RunKey::clone(run));
            }
        }
        Ok(0)
    })?;
    Ok(runs.into_iter().flatten().collect())
}
