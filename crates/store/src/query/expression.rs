//! What a query keeps: conditions on nodes and their folded values, joined by and, or, not.

use std::fmt;
use std::ops::Not;

use waycairn_dag::Node;

use crate::field::Scalar;
use crate::query::grammar;
use crate::schema::{ARTIFACT, CHECKPOINT, JOB};

pub use crate::query::grammar::ParseError;

/// How a folded value is compared with a given one.
///
/// Comparisons are exact: an integer and a float are compared as the numbers they are, never after a rounding.
/// A truth value counts as 0 or 1. NaN is unequal to everything, as IEEE says, and a missing value makes every
/// comparison false, `NotEqual` included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Whether the comparison holds for two values in this order; `None` are values without an order.
    pub(crate) fn holds(self, ordering: Option<std::cmp::Ordering>) -> bool {
        match ordering {
            None => self == Comparison::NotEqual,
            Some(ordering) => match self {
                Comparison::Equal => ordering.is_eq(),
                Comparison::NotEqual => ordering.is_ne(),
                Comparison::Less => ordering.is_lt(),
                Comparison::LessOrEqual => ordering.is_le(),
                Comparison::Greater => ordering.is_gt(),
                Comparison::GreaterOrEqual => ordering.is_ge(),
            },
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

/// A condition on nodes.
///
/// Conditions on identity, on folded values and on markers may stand anywhere. Conditions on single records
/// ([`execution`](Expr::execution), [`tag`](Expr::tag), [`process`](Expr::process),
/// [`written_between`](Expr::written_between)) restrict what is folded, so they make sense only as terms of the
/// outermost `and`; anywhere else a query refuses them.
///
/// ```
/// use waycairn_store::{Comparison, Expr};
///
/// # fn main() -> Result<(), waycairn_store::ParseError> {
/// let parsed = Expr::parse("val/loss < 2.0 and (has eval/accuracy or seq >= 100) and not name = 'x'")?;
/// let built = Expr::compare("val/loss", Comparison::Less, 2.0)
///     .and(Expr::has("eval/accuracy").or(Expr::seq(Comparison::GreaterOrEqual, 100)))
///     .and(!Expr::name("x"));
/// assert_eq!(parsed, built);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub(crate) term: Term,
}

/// The shape of an [`Expr`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    All(Vec<Term>),
    Any(Vec<Term>),
    Not(Box<Term>),
    Field(FieldTerm),
    Identity(IdentityTerm),
    /// The group of the node holds a marker.
    Marker(MarkerTerm),
    /// The run of the node has a finish marker.
    Finished,
    Record(RecordTerm),
}

impl Term {
    /// The column, a field or one of the store's own, that a node must have a value of for this to hold, if it is such a term.
    pub(crate) fn required(&self) -> Option<&str> {
        match self {
            Term::Field(FieldTerm::Missing(_)) => None,
            Term::Field(field) => Some(field.key()),
            Term::Marker(MarkerTerm::Checkpoint) => Some(CHECKPOINT),
            Term::Marker(MarkerTerm::Artifact | MarkerTerm::ArtifactNamed(_)) => Some(ARTIFACT),
            Term::Marker(MarkerTerm::Job(_)) => Some(JOB),
            _ => None,
        }
    }

    fn add_keys<'a>(&'a self, keys: &mut Vec<&'a str>) {
        match self {
            Term::All(terms) | Term::Any(terms) => terms.iter().for_each(|term| term.add_keys(keys)),
            Term::Not(term) => term.add_keys(keys),
            Term::Field(field) if !keys.contains(&field.key()) => keys.push(field.key()),
            Term::Field(_) | Term::Identity(_) | Term::Marker(_) | Term::Finished | Term::Record(_) => {}
        }
    }
}

/// A condition on one folded field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldTerm {
    Compare { key: String, comparison: Comparison, value: Scalar },
    OneOf { key: String, values: Vec<Scalar> },
    Has(String),
    Missing(String),
}

impl FieldTerm {
    pub(crate) fn key(&self) -> &str {
        match self {
            FieldTerm::Compare { key, .. }
            | FieldTerm::OneOf { key, .. }
            | FieldTerm::Has(key)
            | FieldTerm::Missing(key) => key,
        }
    }
}

/// A condition on the identity of the node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IdentityTerm {
    Node(Node),
    Name(String),
    Nonce(String),
    Seq { comparison: Comparison, value: i64 },
    Project(ProjectPattern),
}

/// A marker that some record of the node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkerTerm {
    Checkpoint,
    Artifact,
    ArtifactNamed(String),
    Job(String),
}

/// A condition on single records, before the fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordTerm {
    Execution(String),
    Tag(String),
    Process(i64),
    /// `from <= write < until`, in nanoseconds since 1970; a missing end is open.
    Written {
        from: Option<i64>,
        until: Option<i64>,
    },
}

impl RecordTerm {
    /// What the user calls it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            RecordTerm::Execution(_) => "execution",
            RecordTerm::Tag(_) => "tag",
            RecordTerm::Process(_) => "process",
            RecordTerm::Written { .. } => "written",
        }
    }
}

/// A pattern over names of the form `<project>.<group>.<run>`; a missing part stands for any text without dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectPattern {
    pub(crate) parts: [Option<String>; 3],
}

impl ProjectPattern {
    pub(crate) fn matches(&self, name: &str) -> bool {
        let [project, group, run] = &self.parts;
        let mut rest = name;
        for part in [project, group] {
            let after = match part {
                Some(part) => rest.strip_prefix(part.as_str()).and_then(|rest| rest.strip_prefix('.')),
                None => rest.split_once('.').map(|(_, rest)| rest),
            };
            match after {
                Some(after) => rest = after,
                None => return false,
            }
        }
        run.as_ref().map_or_else(|| !rest.contains('.'), |run| run == rest)
    }
}

impl Expr {
    /// Reads the small language of `waycairn query`.
    ///
    /// ```text
    /// val/loss < 2.0 and (has eval/accuracy or seq >= 100) and not name = 'x'
    /// ```
    ///
    /// - `KEY = VALUE`, also `!=`, `<`, `<=`, `>`, `>=`; `KEY in (VALUE, ..)`; `has KEY`; `missing KEY`. A key is a
    ///   bare word without spaces or operators, or stands in double quotes. A value is a number, `true`, `false`,
    ///   or a string in single quotes; a quote inside quotes is doubled.
    /// - identity: `name = 'x'`, `nonce = 'x'`, `seq >= 3`, `node = 'ADDRESS'` or `node = 'name@nonce:seq'`,
    ///   `project = 'p.*.r'`; here a nonce is written whole, and of a beginning a diagnostic
    ///   says what it may mean
    /// - markers: `checkpoint`, `artifact`, `artifact = 'suffix'`, `job = 'gpt@1'`, `finished`
    /// - single records, only outside of `or` and `not`: `execution = 'x'`, `tag = 'x'`, `process = 0`,
    ///   `written >= '2026-11-30T12:00:00Z'`
    /// - `and` binds more than `or`, `not` most. A field that is called like one of these words is written in
    ///   double quotes or as `field:name`.
    ///
    /// # Errors
    /// [`ParseError`] with the place, what stands there and what was expected.
    pub fn parse(text: &str) -> Result<Expr, ParseError> {
        grammar::parse(text).map(|term| Expr { term })
    }

    /// The keys of the fields that it asks about, each once, in the order in which they are written.
    ///
    /// ```
    /// # use waycairn_store::Expr;
    /// # fn main() -> Result<(), waycairn_store::ParseError> {
    /// let expr = Expr::parse("val/loss < 2 and not (has note or val/loss > 3) and seq > 9")?;
    /// assert_eq!(expr.keys(), ["val/loss", "note"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        self.term.add_keys(&mut keys);
        keys
    }

    /// The folded value of `key` compares so with `value`.
    pub fn compare(key: &str, comparison: Comparison, value: impl Into<Scalar>) -> Expr {
        FieldTerm::Compare { key: key.to_owned(), comparison, value: value.into() }.into()
    }

    /// The folded value of `key` equals one of `values`.
    pub fn any_of(key: &str, values: impl IntoIterator<Item = impl Into<Scalar>>) -> Expr {
        let values = values.into_iter().map(Into::into).collect();
        FieldTerm::OneOf { key: key.to_owned(), values }.into()
    }

    /// The node has a value of `key`.
    #[must_use]
    pub fn has(key: &str) -> Expr {
        FieldTerm::Has(key.to_owned()).into()
    }

    /// The node has no value of `key`.
    #[must_use]
    pub fn missing(key: &str) -> Expr {
        FieldTerm::Missing(key.to_owned()).into()
    }

    /// The node is this one.
    #[must_use]
    pub fn node(node: &Node) -> Expr {
        IdentityTerm::Node(node.clone().with_parent(None)).into()
    }

    /// The node has this name.
    #[must_use]
    pub fn name(name: &str) -> Expr {
        IdentityTerm::Name(name.to_owned()).into()
    }

    /// The node has this nonce.
    #[must_use]
    pub fn nonce(nonce: &str) -> Expr {
        IdentityTerm::Nonce(nonce.to_owned()).into()
    }

    /// The position of the node compares so with `seq`.
    #[must_use]
    pub fn seq(comparison: Comparison, seq: u64) -> Expr {
        let (comparison, value) = match (i64::try_from(seq), comparison) {
            (Ok(value), comparison) => (comparison, value),
            // No recorded position is above i64::MAX, so all of them are below such a one.
            (Err(_), Comparison::Less | Comparison::LessOrEqual | Comparison::NotEqual) => {
                (Comparison::LessOrEqual, i64::MAX)
            }
            (Err(_), Comparison::Equal | Comparison::Greater | Comparison::GreaterOrEqual) => {
                (Comparison::Less, 0)
            }
        };
        IdentityTerm::Seq { comparison, value }.into()
    }

    /// The name has the form `<project>.<group>.<run>` with these parts; a missing part stands for any text
    /// without dots.
    #[must_use]
    pub fn project(project: Option<&str>, group: Option<&str>, run: Option<&str>) -> Expr {
        let parts = [project, group, run].map(|part| part.map(str::to_owned));
        IdentityTerm::Project(ProjectPattern { parts }).into()
    }

    /// A record of the node marks a checkpoint.
    #[must_use]
    pub fn checkpoint() -> Expr {
        MarkerTerm::Checkpoint.into()
    }

    /// A record of the node announces an artifact.
    #[must_use]
    pub fn artifact() -> Expr {
        MarkerTerm::Artifact.into()
    }

    /// A record of the node announces the artifact with this suffix.
    #[must_use]
    pub fn artifact_named(suffix: &str) -> Expr {
        MarkerTerm::ArtifactNamed(suffix.to_owned()).into()
    }

    /// A record of the node was written by this job, `<experiment>@<version>`.
    #[must_use]
    pub fn job(job: &str) -> Expr {
        MarkerTerm::Job(job.to_owned()).into()
    }

    /// The run of the node, over all of its records, has a finish marker, or has none.
    #[must_use]
    pub fn finished(finished: bool) -> Expr {
        let expr = Expr { term: Term::Finished };
        if finished { expr } else { !expr }
    }

    /// Folds only the records of this execution.
    #[must_use]
    pub fn execution(execution: &str) -> Expr {
        RecordTerm::Execution(execution.to_owned()).into()
    }

    /// Folds only the records with this tag.
    #[must_use]
    pub fn tag(tag: &str) -> Expr {
        RecordTerm::Tag(tag.to_owned()).into()
    }

    /// Folds only the records of the process with this index.
    #[must_use]
    pub fn process(process: i64) -> Expr {
        RecordTerm::Process(process).into()
    }

    /// Folds only the records with `from <= write < until`, in nanoseconds since 1970.
    #[must_use]
    pub fn written_between(from: i64, until: i64) -> Expr {
        RecordTerm::Written { from: Some(from), until: Some(until) }.into()
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Expr) -> Expr {
        Expr { term: Term::all([self.term, other.term]) }
    }

    /// At least one holds.
    #[must_use]
    pub fn or(self, other: Expr) -> Expr {
        Expr { term: Term::any([self.term, other.term]) }
    }
}

impl Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        Expr { term: Term::Not(Box::new(self.term)) }
    }
}

impl Term {
    /// Joins terms by and, without a level for terms that are such lists already. No term is always true.
    pub(crate) fn all(terms: impl IntoIterator<Item = Term>) -> Term {
        let mut flat = Vec::new();
        for term in terms {
            match term {
                Term::All(terms) => flat.extend(terms),
                term => flat.push(term),
            }
        }
        if flat.len() == 1 { flat.swap_remove(0) } else { Term::All(flat) }
    }

    /// Joins terms by or, without a level for terms that are such lists already. No term is always false.
    pub(crate) fn any(terms: impl IntoIterator<Item = Term>) -> Term {
        let mut flat = Vec::new();
        for term in terms {
            match term {
                Term::Any(terms) => flat.extend(terms),
                term => flat.push(term),
            }
        }
        if flat.len() == 1 { flat.swap_remove(0) } else { Term::Any(flat) }
    }

    /// The terms of the outermost and.
    pub(crate) fn into_conjuncts(self) -> Vec<Term> {
        match self {
            Term::All(terms) => terms,
            term => vec![term],
        }
    }
}

macro_rules! expr_from {
    ($($from:ident => $variant:ident),*) => {$(
        impl From<$from> for Expr {
            fn from(term: $from) -> Expr {
                Expr { term: Term::$variant(term) }
            }
        }
    )*};
}

expr_from!(FieldTerm => Field, IdentityTerm => Identity, MarkerTerm => Marker, RecordTerm => Record);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_pattern_does_not_cross_dots() {
        let pattern =
            |parts: [Option<&str>; 3]| ProjectPattern { parts: parts.map(|part| part.map(str::to_owned)) };
        let all = pattern([None, None, None]);
        assert!(all.matches("general.default.train-gpt"));
        assert!(!all.matches("general.default"));
        assert!(!all.matches("a.b.c.d"));
        let group = pattern([None, Some("default"), None]);
        assert!(group.matches("general.default.train-gpt"));
        assert!(!group.matches("general.other.train-gpt"));
        assert!(!group.matches("general.default.train.gpt"));
        let dotted = pattern([Some("a.b"), None, Some("r")]);
        assert!(dotted.matches("a.b.g.r"));
        assert!(!dotted.matches("a.g.r"));
        assert!(!pattern([Some("gen"), None, None]).matches("general.default.x"));
    }

    #[test]
    fn comparisons_without_an_order_are_only_unequal() {
        for comparison in [
            Comparison::Equal,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ] {
            assert!(!comparison.holds(None));
        }
        assert!(Comparison::NotEqual.holds(None));
    }
}
