//! Which checkpoints of a run are kept.
//!
//! The decision is pure: [`Retention::excess`] looks at a list of checkpoints. What it names is then looked at in
//! the store, because some nodes keep their checkpoint whatever the settings say: bases of branches, and nodes
//! that an analysis left something at.

use std::collections::{BTreeMap, BTreeSet};

use waycairn_dag::Node;
use waycairn_store::{FieldName, ObjectStore, QueryError, Scalar};

use crate::best::{Best, DEFAULT_METRIC};
use crate::error::TrainError;
use crate::hold;
use crate::settings::{Settings, SettingsError};

/// Which checkpoints a launch keeps. The newest is always among them: a run goes on from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    last: Option<u64>,
    every: Option<u64>,
    best: Option<Best>,
    /// Of two that rank alike the earlier one is the better.
    earliest: bool,
}

/// A checkpoint that may be kept or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) seq: u64,
    /// The step that was done at it.
    pub(crate) step: u64,
    /// What `keep_best` ranks by.
    pub(crate) metric: Option<f64>,
}

impl Retention {
    /// Reads `keep_last`, `keep_every` and `keep_best`.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] when `keep_best` ranks by what can be no field, or by the validation loss where
    /// nothing validates.
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let best = settings.get("keep_best").and_then(Best::of);
        if let Some(best) = &best
            && let Err(error) = FieldName::new(&best.metric)
        {
            return Err(SettingsError::Conflict {
                what: format!("`keep_best` cannot rank by what is no field of a run: {error}"),
                next: "name a field that is recorded, as in `keep_best = \"3 train/loss min\"`".to_owned(),
            });
        }
        if let Some(best) = &best
            && best.metric == DEFAULT_METRIC
            && settings.optional_integer("eval_every")?.is_none()
        {
            return Err(SettingsError::Conflict {
                what: format!(
                    "`keep_best` ranks by `{DEFAULT_METRIC}`, which `eval_every = \"off\"` never records"
                ),
                next: "set `eval_every`, or name another field, as in `keep_best = \"3 train/loss min\"`"
                    .to_owned(),
            });
        }
        Ok(Self {
            last: settings.optional_integer("keep_last")?,
            every: settings.optional_integer("keep_every")?,
            best,
            earliest: false,
        })
    }

    /// Keeps the newest, and with `best` the earliest of those with the lowest validation loss: what a model is taken from.
    pub(crate) fn of_selection(best: bool) -> Self {
        let lowest = || Best { count: 1, metric: DEFAULT_METRIC.to_owned(), highest: false };
        Self { last: Some(1), every: None, best: best.then(lowest), earliest: best }
    }

    /// Whether every checkpoint is kept.
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// The checkpoints that no rule keeps, rising. Of two that rank alike the later one is the better, since it is
    /// trained longer, unless the earlier one is what is meant.
    pub(crate) fn excess(&self, candidates: &[Candidate]) -> Vec<u64> {
        if self.is_off() {
            return Vec::new();
        }
        let mut kept = BTreeSet::new();
        let mut newest: Vec<&Candidate> = candidates.iter().collect();
        newest.sort_by_key(|candidate| std::cmp::Reverse(candidate.seq));
        let last = usize::try_from(self.last.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
        kept.extend(newest.iter().take(last).map(|candidate| candidate.seq));
        if let Some(every) = self.every {
            kept.extend(newest.iter().filter(|one| one.step.is_multiple_of(every)).map(|one| one.seq));
        }
        if let Some(best) = &self.best {
            let metric = |one: &&Candidate| {
                one.metric.filter(|metric| !metric.is_nan()).map(|metric| (metric, one.seq))
            };
            let mut ranked: Vec<(f64, u64)> = newest.iter().filter_map(metric).collect();
            if ranked.is_empty() {
                // The field may be misspelt, or not recorded yet: nothing is known to be worse than the best.
                return Vec::new();
            }
            if self.earliest {
                ranked.reverse();
            }
            // Stable, so the newest, or the earliest, stands first among equals.
            ranked.sort_by(|(one, _), (other, _)| {
                let rising = one.total_cmp(other);
                if best.highest { rising.reverse() } else { rising }
            });
            let count = usize::try_from(best.count).unwrap_or(usize::MAX);
            kept.extend(ranked.into_iter().take(count).map(|(_, seq)| seq));
        }
        let mut excess: Vec<u64> =
            candidates.iter().map(|one| one.seq).filter(|seq| !kept.contains(seq)).collect();
        excess.sort_unstable();
        excess
    }

    /// Withdraws the checkpoints of a run that no rule keeps, after one was saved at `node` by step `step`.
    /// Nothing goes while somebody reads a checkpoint of the run, and then the next save tries again. Returns what a
    /// user should know of the rules.
    ///
    /// # Errors
    ///
    /// [`TrainError::Query`], [`TrainError::Store`], [`TrainError::Lock`]; the run is as good as before, and the next
    /// save tries again.
    pub(crate) fn apply(
        &self,
        store: &ObjectStore,
        node: &Node,
        step: u64,
    ) -> Result<Option<String>, TrainError> {
        if self.is_off() {
            return Ok(None);
        }
        let candidates = self.candidates(store, node, step)?;
        let excess = self.excess(&candidates);
        if excess.is_empty() {
            return Ok(self.unranked(&candidates));
        }
        // Before it is asked what is recorded: who opened a checkpoint earlier has recorded by then, or holds.
        let Some(_alone) = hold::alone(store.root(), node)? else {
            tracing::debug!(node = %node, "checkpoints of the run are being read, so none is withdrawn now");
            return Ok(None);
        };
        let mut withdrawn = Vec::new();
        for seq in excess {
            if let Ok(node) = node.at(seq)
                && !is_held(store, &node)?
            {
                withdrawn.push(node);
            }
        }
        store.withdraw_checkpoints(&withdrawn)?;
        Ok(None)
    }

    /// Says that `keep_best` ranks nothing, where a checkpoint stays for that alone.
    fn unranked(&self, candidates: &[Candidate]) -> Option<String> {
        let best = self.best.as_ref()?;
        let ranks = |one: &Candidate| one.metric.is_some_and(|metric| !metric.is_nan());
        let others = Self { last: Some(self.last.unwrap_or(1)), best: None, ..self.clone() };
        let stays = !candidates.iter().any(ranks) && !others.excess(candidates).is_empty();
        stays.then(|| {
            format!(
                "no checkpoint has a number in the field `{}` yet, so `keep_best` keeps them all: it ranks by what \
                 is recorded at the very steps that are saved",
                best.metric
            )
        })
    }

    /// The checkpoints of the run of `node`. In one run steps and positions rise together.
    fn candidates(&self, store: &ObjectStore, node: &Node, step: u64) -> Result<Vec<Candidate>, QueryError> {
        let reader = store.live_reader();
        let marked = || {
            let mut query = reader.query();
            query.name(node.name()).nonce(node.nonce()).checkpoint();
            query
        };
        let mut metrics = BTreeMap::new();
        if let Some(best) = &self.best {
            // Nodes without the field have no row here.
            let key = format!("field:{}", best.metric);
            for row in marked().has(&best.metric).select(&[&key])?.value {
                metrics.insert(row.node.seq(), row.fields.values().find_map(number));
            }
        }
        let candidate = |marked: &Node| Candidate {
            seq: marked.seq(),
            step: (step + marked.seq()).saturating_sub(node.seq()),
            metric: metrics.get(&marked.seq()).copied().flatten(),
        };
        Ok(marked().all()?.value.iter().map(candidate).collect())
    }
}

fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Float(value) => Some(*value),
        #[expect(clippy::cast_precision_loss, reason = "a rank among metrics, not an identity")]
        Scalar::Int(value) => Some(*value as f64),
        _ => None,
    }
}

/// Whether something else needs the checkpoint: a branch began at it, or may have, in a part that is damaged; or
/// something is attached to its node.
fn is_held(store: &ObjectStore, node: &Node) -> Result<bool, QueryError> {
    let Some(view) = store.live_reader().node(node)? else { return Ok(false) };
    let branched = view.children.iter().any(|child| !child.same_run(node));
    Ok(branched || view.children_incomplete || !view.artifacts.is_empty() || !view.files.is_empty())
}

#[cfg(test)]
#[path = "retention/tests.rs"]
mod tests;
