//! An expression as the text that it is read from, and back: what a saved query holds.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use crate::field::Scalar;
use crate::query::expression::{Expr, FieldTerm, IdentityTerm, MarkerTerm, ProjectPattern, RecordTerm, Term};

/// Shows the text that [`Expr::parse`] reads as an expression that keeps the same nodes. Keys stand in double quotes.
///
/// ```
/// use waycairn_store::{Comparison, Expr};
///
/// # fn main() -> Result<(), waycairn_store::ParseError> {
/// let expr = Expr::compare("val/loss", Comparison::Less, 2.0).or(!Expr::name("it's"));
/// assert_eq!(expr.to_string(), r#""val/loss" < 2.0 or not name = 'it''s'"#);
/// assert_eq!(Expr::parse(&expr.to_string())?, expr);
/// # Ok(())
/// # }
/// ```
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        term(&self.term, Inside::Nothing, f)
    }
}

/// As its text.
impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From its text.
impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expr, D::Error> {
        Expr::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// What a term stands in: what binds less than that needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Inside {
    Nothing,
    Or,
    And,
    Not,
}

fn term(of: &Term, inside: Inside, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match of {
        Term::All(terms) => list(terms, " and ", Inside::And, inside, f),
        Term::Any(terms) => list(terms, " or ", Inside::Or, inside, f),
        Term::Not(inner) => {
            f.write_str("not ")?;
            term(inner, Inside::Not, f)
        }
        Term::Field(of) => field(of, f),
        Term::Identity(of) => identity(of, f),
        Term::Marker(MarkerTerm::Checkpoint) => f.write_str("checkpoint"),
        Term::Marker(MarkerTerm::Artifact) => f.write_str("artifact"),
        Term::Marker(MarkerTerm::ArtifactNamed(suffix)) => write!(f, "artifact = {}", Quoted(suffix, '\'')),
        Term::Marker(MarkerTerm::Job(job)) => write!(f, "job = {}", Quoted(job, '\'')),
        Term::Finished => f.write_str("finished"),
        Term::Record(of) => record(of, inside, f),
    }
}

/// Terms joined by a word. An empty list is always true or always false, which a condition says that every node passes.
fn list(terms: &[Term], word: &str, own: Inside, inside: Inside, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let parentheses = inside > own && terms.len() > 1;
    if parentheses {
        f.write_str("(")?;
    }
    if terms.is_empty() {
        f.write_str(if own == Inside::And { "seq >= 0" } else { "seq < 0" })?;
    }
    for (index, one) in terms.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        term(one, own, f)?;
    }
    if parentheses { f.write_str(")") } else { Ok(()) }
}

fn field(of: &FieldTerm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match of {
        // A comparison with nothing holds for no node.
        FieldTerm::Compare { value: Scalar::Null, .. } => f.write_str("seq < 0"),
        FieldTerm::Compare { key, comparison, value } => {
            write!(f, "{} {comparison} {}", Quoted(key, '"'), Literal(value))
        }
        FieldTerm::OneOf { key, values } => {
            let mut values = values.iter().filter(|value| !value.is_null()).peekable();
            if values.peek().is_none() {
                return f.write_str("seq < 0");
            }
            write!(f, "{} in (", Quoted(key, '"'))?;
            for (index, value) in values.enumerate() {
                let comma = if index > 0 { ", " } else { "" };
                write!(f, "{comma}{}", Literal(value))?;
            }
            f.write_str(")")
        }
        FieldTerm::Has(key) => write!(f, "has {}", Quoted(key, '"')),
        FieldTerm::Missing(key) => write!(f, "missing {}", Quoted(key, '"')),
    }
}

fn identity(of: &IdentityTerm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match of {
        IdentityTerm::Node(node) => write!(f, "node = {}", Quoted(node.address().as_str(), '\'')),
        IdentityTerm::Name(name) => write!(f, "name = {}", Quoted(name, '\'')),
        IdentityTerm::Nonce(nonce) => write!(f, "nonce = {}", Quoted(nonce, '\'')),
        IdentityTerm::Seq { comparison, value } => write!(f, "seq {comparison} {value}"),
        IdentityTerm::Project(ProjectPattern { parts }) => {
            let parts: Vec<&str> = parts.iter().map(|part| part.as_deref().unwrap_or("*")).collect();
            write!(f, "project = {}", Quoted(&parts.join("."), '\''))
        }
    }
}

fn record(of: &RecordTerm, inside: Inside, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match of {
        RecordTerm::Execution(execution) => write!(f, "execution = {}", Quoted(execution, '\'')),
        RecordTerm::Tag(tag) => write!(f, "tag = {}", Quoted(tag, '\'')),
        RecordTerm::Process(process) => write!(f, "process = {process}"),
        RecordTerm::Written { from: Some(from), until: None } => write!(f, "written >= {from}"),
        RecordTerm::Written { from: None, until: Some(until) } => write!(f, "written < {until}"),
        RecordTerm::Written { from: Some(from), until: Some(until) } => {
            let (open, close) = if inside > Inside::And { ("(", ")") } else { ("", "") };
            write!(f, "{open}written >= {from} and written < {until}{close}")
        }
        RecordTerm::Written { from: None, until: None } => f.write_str("seq >= 0"),
    }
}

/// A text in quotes, in which a quote is doubled.
struct Quoted<'a>(&'a str, char);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quoted(text, quote) = self;
        write!(f, "{quote}{}{quote}", text.replace(*quote, &format!("{quote}{quote}")))
    }
}

/// A value, which keeps its type: a float has a point or an exponent.
struct Literal<'a>(&'a Scalar);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Scalar::Text(text) => Quoted(text, '\'').fmt(f),
            Scalar::Float(value) => write!(f, "{value:?}"),
            other => other.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;
    use waycairn_dag::Node;

    use super::*;
    use crate::query::expression::Comparison;
    use crate::query::tests::oracle::COMPARISONS;

    fn comparison() -> impl Strategy<Value = Comparison> {
        prop::sample::select(COMPARISONS.to_vec())
    }

    fn value() -> impl Strategy<Value = Scalar> {
        let floats = any::<f64>().prop_filter("NaN is not itself", |value| !value.is_nan());
        prop_oneof![
            any::<bool>().prop_map(Scalar::Bool),
            any::<i64>().prop_map(Scalar::Int),
            floats.prop_map(Scalar::Float),
            Just(Scalar::Float(f64::NEG_INFINITY)),
            ".{0,6}".prop_map(Scalar::Text),
        ]
    }

    fn expr() -> impl Strategy<Value = Expr> {
        let key = "[a-z '\"/=(,]{1,6}|name|not|seq|field:x";
        let leaf = prop_oneof![
            (key, comparison(), value())
                .prop_map(|(key, comparison, value)| Expr::compare(&key, comparison, value)),
            (key, prop::collection::vec(value(), 1..3)).prop_map(|(key, values)| Expr::any_of(&key, values)),
            key.prop_map(|key| Expr::has(&key)),
            key.prop_map(|key| Expr::missing(&key)),
            ".{1,6}".prop_map(|name| Expr::name(&name)),
            Just(Expr::node(&Node::new("a:b", "949e88", 3).unwrap())),
            (comparison(), 0_u64..99).prop_map(|(comparison, seq)| Expr::seq(comparison, seq)),
            Just(Expr::project(Some("p"), None, Some("r"))),
            Just(Expr::checkpoint()),
            Just(Expr::artifact()),
            Just(Expr::artifact_named("it's")),
            Just(Expr::job("gpt@1")),
            Just(Expr::finished(false)),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(one, other)| one.and(other)),
                (inner.clone(), inner.clone()).prop_map(|(one, other)| one.or(other)),
                inner.prop_map(|one| !one),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_expression_is_read_from_its_own_text(expr in expr()) {
            let text = expr.to_string();
            prop_assert_eq!(Expr::parse(&text).map_err(|error| error.to_string()), Ok(expr), "{}", text);
        }
    }

    #[test]
    fn what_the_language_has_no_word_for_keeps_its_meaning() {
        let text = |expr: Expr| expr.to_string();
        assert_eq!(text(Expr::any_of("a", [0_i64; 0])), "seq < 0");
        assert_eq!(text(Expr::compare("a", Comparison::Equal, Scalar::Null)), "seq < 0");
        let written = Expr::written_between(3, 9).and(Expr::tag("x"));
        assert_eq!(text(written.clone()), "written >= 3 and written < 9 and tag = 'x'");
        let json = serde_json::to_string(&written).unwrap();
        assert_eq!(text(serde_json::from_str(&json).unwrap()), text(written));
        assert!(serde_json::from_str::<Expr>("\"a <\"").unwrap_err().to_string().contains("expected"));
    }
}
