//! Nonces of an expression that are only beginnings of nonces.

use std::collections::BTreeSet;

use waycairn_dag::Node;

use crate::listing::PartSet;
use crate::query::Diagnostic;
use crate::query::expression::{IdentityTerm, Term};

/// Most candidates that a diagnostic names.
const MAX_CANDIDATES: usize = 5;

/// Says of each nonce of an expression that no run has and that some begin with, in which it may have been meant.
/// Only what is known of the parts without reading them is looked at.
pub(crate) fn short_nonces(set: &PartSet, terms: &[Term], diagnostics: &mut Vec<Diagnostic>) {
    for term in terms {
        match term {
            Term::All(terms) | Term::Any(terms) => short_nonces(set, terms, diagnostics),
            Term::Not(term) => short_nonces(set, std::slice::from_ref(term), diagnostics),
            Term::Identity(IdentityTerm::Nonce(nonce)) => diagnostics.extend(short(set, None, nonce)),
            Term::Identity(IdentityTerm::Node(node)) => {
                diagnostics.extend(short(set, Some(node), node.nonce()));
            }
            _ => {}
        }
    }
}

fn short(set: &PartSet, node: Option<&Node>, nonce: &str) -> Option<Diagnostic> {
    let mut nearest = BTreeSet::new();
    for (name, other) in runs(set) {
        if nonce.is_empty() || node.is_some_and(|node| node.name() != name) || !other.starts_with(nonce) {
            continue;
        }
        if other == nonce {
            return None;
        }
        nearest.insert(match node {
            Some(node) => format!("{name}@{other}:{}", node.seq()),
            None => other.to_owned(),
        });
    }
    if nearest.is_empty() {
        return None;
    }
    let nearest = nearest.into_iter().take(MAX_CANDIDATES).collect();
    Some(Diagnostic::ShortNonce { nonce: nonce.to_owned(), nearest })
}

/// Name and nonce of the runs that footers tell, each as often as it occurs.
fn runs(set: &PartSet) -> impl Iterator<Item = (&str, &str)> {
    set.parts.iter().flat_map(|part| {
        let listed = part.runs.iter().flatten().map(|run| (&*run.name, &*run.nonce));
        let groups = part.groups.iter().filter(|_| part.runs.is_none());
        listed.chain(groups.filter_map(|group| group.run.as_ref().map(|run| (&*run.name, &*run.nonce))))
    })
}
