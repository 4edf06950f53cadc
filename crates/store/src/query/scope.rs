//! Which rows a query has to look at: constraints on identity and on single records, taken from the outermost
//! `and` of its expression.

use std::collections::BTreeSet;

use waycairn_dag::Node;

use crate::part::RunRange;
use crate::query::QueryError;
use crate::query::expression::{Comparison, IdentityTerm, ProjectPattern, RecordTerm, Term};

/// Constraints on the identity. They select row groups, runs and rows to read; the expression itself is still
/// evaluated on what was folded, so a constraint here may be wider than the expression, never narrower.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdentityScope {
    runs: Vec<RunCondition>,
    first_seq: Option<i64>,
    last_seq: Option<i64>,
}

#[derive(Clone, Debug)]
enum RunCondition {
    Names(BTreeSet<String>),
    Nonces(BTreeSet<String>),
    Nodes(BTreeSet<Node>),
    Project(ProjectPattern),
}

impl IdentityScope {
    /// Collects what the terms of the outermost `and` say about identity.
    pub(crate) fn of(conjuncts: &[Term]) -> IdentityScope {
        let mut scope = IdentityScope::default();
        for term in conjuncts {
            match term {
                Term::Identity(term) => scope.add(term),
                Term::Any(terms) => scope.runs.extend(RunCondition::of_alternatives(terms)),
                _ => {}
            }
        }
        scope
    }

    fn add(&mut self, term: &IdentityTerm) {
        match term {
            IdentityTerm::Node(node) => self.runs.push(RunCondition::Nodes([node.clone()].into())),
            IdentityTerm::Name(name) => self.runs.push(RunCondition::Names([name.clone()].into())),
            IdentityTerm::Nonce(nonce) => self.runs.push(RunCondition::Nonces([nonce.clone()].into())),
            IdentityTerm::Project(pattern) => self.runs.push(RunCondition::Project(pattern.clone())),
            IdentityTerm::Seq { comparison, value } => self.add_seq(*comparison, *value),
        }
    }

    /// Narrows the range of positions.
    pub(crate) fn add_seq(&mut self, comparison: Comparison, value: i64) {
        let (first, last) = match comparison {
            Comparison::Equal => (Some(value), Some(value)),
            Comparison::Less => (None, Some(value.saturating_sub(1))),
            Comparison::LessOrEqual => (None, Some(value)),
            Comparison::Greater => (Some(value.saturating_add(1)), None),
            Comparison::GreaterOrEqual => (Some(value), None),
            Comparison::NotEqual => (None, None),
        };
        self.first_seq = self.first_seq.max(first);
        self.last_seq = match (self.last_seq, last) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Narrows the scope to these names.
    pub(crate) fn add_names(&mut self, names: impl IntoIterator<Item = String>) {
        self.runs.push(RunCondition::Names(names.into_iter().collect()));
    }

    /// Narrows the scope to these nonces.
    pub(crate) fn add_nonces(&mut self, nonces: impl IntoIterator<Item = String>) {
        self.runs.push(RunCondition::Nonces(nonces.into_iter().collect()));
    }

    /// The scope of one node.
    pub(crate) fn node(node: &Node) -> IdentityScope {
        let mut scope = IdentityScope::default();
        scope.add(&IdentityTerm::Node(node.clone()));
        scope
    }

    /// The same scope widened to all positions of its runs.
    pub(crate) fn of_runs(&self) -> IdentityScope {
        let mut wide = IdentityScope::default();
        for condition in &self.runs {
            if let RunCondition::Nodes(nodes) = condition {
                wide.add_names(nodes.iter().map(|node| node.name().to_owned()));
                wide.add_nonces(nodes.iter().map(|node| node.nonce().to_owned()));
            } else {
                wide.runs.push(condition.clone());
            }
        }
        wide
    }

    /// Whether nothing is constrained.
    pub(crate) fn is_everything(&self) -> bool {
        self.runs.is_empty() && self.first_seq.is_none() && self.last_seq.is_none()
    }

    /// Whether nodes of the run can be in scope.
    pub(crate) fn allows_run(&self, name: &str, nonce: &str) -> bool {
        self.runs.iter().all(|condition| match condition {
            RunCondition::Names(names) => names.contains(name),
            RunCondition::Nonces(nonces) => nonces.contains(nonce),
            RunCondition::Nodes(nodes) => {
                nodes.iter().any(|node| node.name() == name && node.nonce() == nonce)
            }
            RunCondition::Project(pattern) => pattern.matches(name),
        })
    }

    /// A list of nonces that has those of all runs in scope, if there is one.
    pub(crate) fn nonces(&self) -> Option<Vec<&str>> {
        self.runs.iter().find_map(|condition| match condition {
            RunCondition::Nonces(nonces) => Some(nonces.iter().map(String::as_str).collect()),
            RunCondition::Nodes(nodes) => Some(nodes.iter().map(Node::nonce).collect()),
            RunCondition::Names(_) | RunCondition::Project(_) => None,
        })
    }

    /// The first and the last position in scope of a run that is allowed; empty when the first is larger.
    pub(crate) fn seqs(&self, name: &str, nonce: &str) -> (i64, i64) {
        let (mut first, mut last) = (self.first_seq.unwrap_or(i64::MIN), self.last_seq.unwrap_or(i64::MAX));
        for condition in &self.runs {
            if let RunCondition::Nodes(nodes) = condition {
                let of_run = nodes.iter().filter(|node| node.name() == name && node.nonce() == nonce);
                let seqs: Vec<i64> = of_run.filter_map(|node| i64::try_from(node.seq()).ok()).collect();
                first = first.max(seqs.iter().copied().min().unwrap_or(i64::MAX));
                last = last.min(seqs.iter().copied().max().unwrap_or(i64::MIN));
            }
        }
        (first, last)
    }

    /// Whether a run whose rows lie between these positions can be in scope.
    pub(crate) fn allows_range(&self, range: &RunRange) -> bool {
        if !self.allows_run(&range.name, &range.nonce) {
            return false;
        }
        let (first, last) = self.seqs(&range.name, &range.nonce);
        let reaches = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        first <= last && reaches(range.first_seq) <= last && first <= reaches(range.last_seq)
    }

    /// Whether positions between these can be in scope, whatever the run.
    pub(crate) fn allows_seqs(&self, first: i64, last: i64) -> bool {
        self.first_seq.is_none_or(|bound| bound <= last) && self.last_seq.is_none_or(|bound| first <= bound)
    }

    /// Whether names between these can be in scope; `None` is an open end.
    pub(crate) fn allows_names(&self, first: Option<&str>, last: Option<&str>) -> bool {
        let between =
            |name: &str| first.is_none_or(|first| first <= name) && last.is_none_or(|last| name <= last);
        self.runs.iter().all(|condition| match condition {
            RunCondition::Names(names) => names.iter().any(|name| between(name)),
            RunCondition::Nodes(nodes) => nodes.iter().any(|node| between(node.name())),
            RunCondition::Nonces(_) | RunCondition::Project(_) => true,
        })
    }
}

impl RunCondition {
    /// What a list of alternatives says, if all of them are of one kind.
    fn of_alternatives(terms: &[Term]) -> Option<RunCondition> {
        let names = terms.iter().map(|term| match term {
            Term::Identity(IdentityTerm::Name(name)) => Some(name.clone()),
            _ => None,
        });
        if let Some(names) = names.collect() {
            return Some(RunCondition::Names(names));
        }
        let nonces = terms.iter().map(|term| match term {
            Term::Identity(IdentityTerm::Nonce(nonce)) => Some(nonce.clone()),
            _ => None,
        });
        if let Some(nonces) = nonces.collect() {
            return Some(RunCondition::Nonces(nonces));
        }
        let nodes = terms.iter().map(|term| match term {
            Term::Identity(IdentityTerm::Node(node)) => Some(node.clone()),
            _ => None,
        });
        nodes.collect::<Option<_>>().map(RunCondition::Nodes)
    }
}

/// Constraints on single records: what does not meet all of them is not folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordScope {
    pub(crate) executions: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) processes: Vec<i64>,
    /// Inclusive.
    pub(crate) from: Option<i64>,
    /// Exclusive.
    pub(crate) until: Option<i64>,
}

impl RecordScope {
    /// Takes the conditions on records out of the terms of the outermost `and`.
    ///
    /// # Errors
    /// [`QueryError::RecordScope`] when one stands deeper.
    pub(crate) fn take(conjuncts: &mut Vec<Term>) -> Result<RecordScope, QueryError> {
        let mut scope = RecordScope::default();
        conjuncts.retain(|term| match term {
            Term::Record(term) => {
                scope.add(term);
                false
            }
            _ => true,
        });
        match conjuncts.iter().find_map(record_term) {
            Some(term) => Err(QueryError::RecordScope { word: term.word() }),
            None => Ok(scope),
        }
    }

    fn add(&mut self, term: &RecordTerm) {
        match term {
            RecordTerm::Execution(execution) => self.executions.push(execution.clone()),
            RecordTerm::Tag(tag) => self.tags.push(tag.clone()),
            RecordTerm::Process(process) => self.processes.push(*process),
            RecordTerm::Written { from, until } => {
                self.from = self.from.max(*from);
                self.until = match (self.until, *until) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
        }
    }

    pub(crate) fn is_everything(&self) -> bool {
        *self == RecordScope::default()
    }
}

fn record_term(term: &Term) -> Option<&RecordTerm> {
    match term {
        Term::Record(term) => Some(term),
        Term::All(terms) | Term::Any(terms) => terms.iter().find_map(record_term),
        Term::Not(term) => record_term(term),
        Term::Field(_) | Term::Identity(_) | Term::Marker(_) | Term::Finished => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Expr;

    fn conjuncts(text: &str) -> Vec<Term> {
        Expr::parse(text).unwrap().term.into_conjuncts()
    }

    fn identity(text: &str) -> IdentityScope {
        IdentityScope::of(&conjuncts(text))
    }

    #[test]
    fn the_outermost_and_bounds_the_identity() {
        let scope =
            identity("name in ('a', 'b') and seq >= 3 and seq < 9 and not name = 'b' and val/loss < 2");
        assert!(scope.allows_run("a", "n") && scope.allows_run("b", "n") && !scope.allows_run("c", "n"));
        assert_eq!(scope.seqs("a", "n"), (3, 8));
        assert!(scope.allows_names(Some("a"), Some("a")) && !scope.allows_names(Some("c"), None));
        assert!(scope.allows_seqs(8, 100) && !scope.allows_seqs(9, 100) && !scope.allows_seqs(0, 2));
        let range = |name: &str, first_seq, last_seq| RunRange {
            name: name.into(),
            nonce: "n".into(),
            first_seq,
            last_seq,
        };
        assert!(scope.allows_range(&range("a", 0, 3)) && !scope.allows_range(&range("a", 9, 10)));
        assert!(!scope.allows_range(&range("c", 0, 10)));
        assert!(identity("name = 'a' or seq = 3").is_everything());
        assert!(identity("not name = 'a'").is_everything());
    }

    #[test]
    fn nodes_bound_their_run_alone() {
        let scope = identity("node in ('a@n:3', 'a@n:7', 'b@n:5')");
        assert_eq!(scope.seqs("a", "n"), (3, 7));
        assert_eq!(scope.seqs("b", "n"), (5, 5));
        assert!(!scope.allows_run("a", "m"));
    }

    #[test]
    fn conditions_on_records_stand_only_beside_the_outermost_and() {
        let mut terms =
            conjuncts("tag = 't' and val/loss < 2 and process = 1 and written >= 5 and written < 9");
        let scope = RecordScope::take(&mut terms).unwrap();
        assert_eq!(terms.len(), 1);
        assert_eq!((scope.tags.as_slice(), scope.processes.as_slice()), (&["t".to_owned()][..], &[1][..]));
        assert_eq!((scope.from, scope.until), (Some(5), Some(9)));
        for text in ["tag = 't' or seq = 1", "not process = 0", "seq = 1 and not (tag = 't' and seq = 2)"] {
            let error = RecordScope::take(&mut conjuncts(text)).unwrap_err();
            assert!(matches!(error, QueryError::RecordScope { word: "tag" | "process" }), "{text}");
        }
    }
}
