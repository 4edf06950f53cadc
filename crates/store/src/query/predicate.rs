//! Conditions on a folded block.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::field::Scalar;
use crate::listing::{FieldTable, Types};
use crate::published::RunKey;
use crate::query::bits::Bits;
use crate::query::block::Block;
use crate::query::error::nearest;
use crate::query::expression::{Comparison, FieldTerm, IdentityTerm, MarkerTerm, Term};
use crate::query::grammar::FIELD_PREFIX;
use crate::query::slots::{FoldedColumn, Value};
use crate::query::spec::{Flag, FoldSpec};
use crate::query::{Diagnostic, QueryError};
use crate::schema::{ARTIFACT, CHECKPOINT, JOB, TEXT_SUFFIX, ValueType};

/// An expression with its columns found.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
    /// The value compares so with one of the values.
    Compare {
        column: usize,
        side: Side,
        comparison: Comparison,
        values: Vec<Scalar>,
    },
    Has {
        column: usize,
        side: Side,
    },
    Identity(IdentityTerm),
    Flag(usize),
    Finished,
}

/// Which values of a field are looked at: `key` means all, `key::text` the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    All,
    Text,
}

impl Side {
    pub(crate) fn takes(self, value: Value<'_>) -> bool {
        self == Side::All || matches!(value, Value::Text(_))
    }
}

/// Splits `key::text` into the field and the side. No field ends in `::text`.
pub(crate) fn side(key: &str) -> (&str, Side) {
    match key.strip_suffix(TEXT_SUFFIX) {
        Some(key) => (key, Side::Text),
        None => (key, Side::All),
    }
}

/// Finds the columns of expressions.
pub(crate) struct Binder<'a> {
    pub(crate) fields: &'a FieldTable,
    pub(crate) spec: &'a mut FoldSpec,
    pub(crate) diagnostics: &'a mut Vec<Diagnostic>,
    /// Whether the answer is empty because a term of the outermost `and` can never hold.
    pub(crate) nothing: bool,
    /// Whether some term asks for finish markers.
    pub(crate) finished: bool,
}

impl Binder<'_> {
    /// Binds the terms of the outermost `and`.
    ///
    /// # Errors
    /// [`QueryError::TextOnly`].
    pub(crate) fn conjuncts(&mut self, terms: &[Term]) -> Result<Predicate, QueryError> {
        for term in terms {
            if let Term::Field(term) = term {
                self.check_known(term);
            }
        }
        Ok(Predicate::All(terms.iter().map(|term| self.term(term)).collect::<Result<_, _>>()?))
    }

    /// A field that nothing has makes a term of the outermost `and` false, and is probably mistyped.
    fn check_known(&mut self, term: &FieldTerm) {
        if let FieldTerm::Missing(_) = term {
            return;
        }
        if !self.is_known(term.key()) {
            self.nothing = true;
            self.diagnose_unknown(term.key());
        } else if self.asks_for_missing_text(term) {
            self.nothing = true;
            self.diagnose(Diagnostic::NoText { key: side(term.key()).0.to_owned() });
        }
    }

    /// Whether some part has the field.
    pub(crate) fn is_known(&self, key: &str) -> bool {
        !self.fields.get(side(key).0).is_empty()
    }

    pub(crate) fn diagnose_unknown(&mut self, key: &str) {
        let (key, _) = side(key);
        let diagnostic = match self.fields.unreadable.get(key) {
            Some(data_type) => {
                Diagnostic::UnreadableField { key: key.to_owned(), data_type: data_type.clone() }
            }
            None => {
                let key = key.to_owned();
                Diagnostic::UnknownField {
                    nearest: nearest(&key, self.fields.types.keys().map(|key| &**key)),
                    key,
                }
            }
        };
        self.diagnose(diagnostic);
    }

    fn diagnose(&mut self, diagnostic: Diagnostic) {
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Whether only texts could make the term true, and there are none.
    fn asks_for_missing_text(&self, term: &FieldTerm) -> bool {
        let (key, side) = side(term.key());
        let only_text = match term {
            FieldTerm::Compare { value, .. } => matches!(value, Scalar::Text(_)),
            FieldTerm::OneOf { values, .. } => values.iter().all(|value| matches!(value, Scalar::Text(_))),
            FieldTerm::Has(_) => side == Side::Text,
            FieldTerm::Missing(_) => false,
        };
        only_text && !self.fields.get(key).has_text()
    }

    fn term(&mut self, term: &Term) -> Result<Predicate, QueryError> {
        Ok(match term {
            Term::All(terms) => Predicate::All(self.terms(terms)?),
            Term::Any(terms) => Predicate::Any(self.terms(terms)?),
            Term::Not(term) => Predicate::Not(Box::new(self.term(term)?)),
            Term::Identity(term) => Predicate::Identity(term.clone()),
            Term::Finished => {
                self.finished = true;
                Predicate::Finished
            }
            Term::Marker(term) => Predicate::Flag(self.spec.flag(&match term {
                MarkerTerm::Checkpoint => Flag::True(CHECKPOINT),
                MarkerTerm::Artifact => Flag::Present(ARTIFACT),
                MarkerTerm::ArtifactNamed(suffix) => Flag::Lists(ARTIFACT, Arc::from(&**suffix)),
                MarkerTerm::Job(job) => Flag::Equals(JOB, Arc::from(&**job)),
            })),
            Term::Field(term) => self.field(term)?,
            Term::Record(term) => return Err(QueryError::RecordScope { word: term.word() }),
        })
    }

    fn terms(&mut self, terms: &[Term]) -> Result<Vec<Predicate>, QueryError> {
        terms.iter().map(|term| self.term(term)).collect()
    }

    fn field(&mut self, term: &FieldTerm) -> Result<Predicate, QueryError> {
        let (key, side) = side(term.key());
        let key = key.to_owned();
        let column = self.spec.column(&key);
        Ok(match term {
            FieldTerm::Has(_) => Predicate::Has { column, side },
            FieldTerm::Missing(_) => Predicate::Not(Box::new(Predicate::Has { column, side })),
            FieldTerm::Compare { comparison, value, .. } => {
                self.check_types(&key, side, std::slice::from_ref(value))?;
                Predicate::Compare { column, side, comparison: *comparison, values: vec![value.clone()] }
            }
            FieldTerm::OneOf { values, .. } => {
                self.check_types(&key, side, values)?;
                Predicate::Compare { column, side, comparison: Comparison::Equal, values: values.clone() }
            }
        })
    }

    fn check_types(&self, key: &str, side: Side, values: &[Scalar]) -> Result<(), QueryError> {
        let types = self.fields.get(key);
        let only_text = side == Side::Text || types.single() == Some(ValueType::Text);
        let number = values.iter().find(|value| !matches!(value, Scalar::Text(_) | Scalar::Null));
        match number {
            Some(value) if only_text && types.has_text() => {
                Err(QueryError::TextOnly { key: key.to_owned(), value: value.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The key of a field as it is asked for: without the prefix that tells it from a word of the language.
pub(crate) fn field_key(key: &str) -> &str {
    key.strip_prefix(FIELD_PREFIX).unwrap_or(key)
}

/// A block with the columns that its predicate needed, so that none is folded twice.
pub(crate) struct Folded<'a> {
    pub(crate) block: &'a Block,
    pub(crate) fields: &'a FieldTable,
    pub(crate) finished: &'a HashSet<RunKey>,
    columns: Vec<Option<FoldedColumn>>,
    absent: Option<FoldedColumn>,
}

impl<'a> Folded<'a> {
    pub(crate) fn new(
        block: &'a Block,
        spec: &FoldSpec,
        fields: &'a FieldTable,
        finished: &'a HashSet<RunKey>,
    ) -> Folded<'a> {
        Folded { block, fields, finished, columns: spec.columns.iter().map(|_| None).collect(), absent: None }
    }

    /// Folds a column, unless that has been done.
    pub(crate) fn column(&mut self, spec: &FoldSpec, index: usize) -> &FoldedColumn {
        let (block, fields) = (self.block, self.fields);
        self.columns[index].get_or_insert_with(|| {
            let name = &spec.columns[index];
            let reserved = crate::schema::RESERVED.iter().find(|column| column.name == &**name);
            let types = match reserved {
                Some(column) => Types::default().with(column.value_type),
                None => fields.get(name),
            };
            block.column(index, types)
        })
    }

    /// The nodes for which a predicate holds.
    pub(crate) fn holds(&mut self, spec: &FoldSpec, predicate: &Predicate) -> Bits {
        let len = self.block.len();
        match predicate {
            Predicate::All(predicates) => {
                let mut bits = Bits::ones(len);
                for predicate in predicates {
                    bits.and(&self.holds(spec, predicate));
                    if bits.count() == 0 {
                        break;
                    }
                }
                bits
            }
            Predicate::Any(predicates) => {
                let mut bits = Bits::new(len);
                for predicate in predicates {
                    bits.or(&self.holds(spec, predicate));
                }
                bits
            }
            Predicate::Not(predicate) => {
                let mut bits = self.holds(spec, predicate);
                bits.negate();
                bits
            }
            Predicate::Has { column, side } => {
                let column = self.column(spec, *column);
                match side {
                    Side::All => column.present(),
                    Side::Text => Bits::from_fn(len, |slot| matches!(column.get(slot), Some(Value::Text(_)))),
                }
            }
            Predicate::Compare { column, side, comparison, values } => {
                compare(self.column(spec, *column), *side, *comparison, values)
            }
            Predicate::Identity(term) => self.identity(term),
            Predicate::Flag(index) => self.block.flag(*index),
            Predicate::Finished => {
                let mut bits = Bits::new(len);
                for (run, slots) in self.block.runs() {
                    if self.finished.contains(&**run) {
                        bits.set_range(slots);
                    }
                }
                bits
            }
        }
    }

    fn identity(&self, term: &IdentityTerm) -> Bits {
        if let IdentityTerm::Seq { comparison, value } = term {
            let seqs = self.block.seqs();
            return Bits::from_fn(seqs.len(), |slot| comparison.holds(Some(seqs[slot].cmp(value))));
        }
        let mut bits = Bits::new(self.block.len());
        for (run, slots) in self.block.runs() {
            match term {
                IdentityTerm::Name(name) if *run.name == **name => bits.set_range(slots),
                IdentityTerm::Nonce(nonce) if *run.nonce == **nonce => bits.set_range(slots),
                IdentityTerm::Project(pattern) if pattern.matches(&run.name) => bits.set_range(slots),
                IdentityTerm::Node(node) if *run.name == *node.name() && *run.nonce == *node.nonce() => {
                    let seq = i64::try_from(node.seq()).unwrap_or(i64::MAX);
                    let seqs = &self.block.seqs()[slots.clone()];
                    if let Ok(place) = seqs.binary_search(&seq) {
                        bits.set(slots.start + place);
                    }
                }
                _ => {}
            }
        }
        bits
    }

    /// The folded column of this name, or one without values if the spec has none such.
    pub(crate) fn find(&mut self, spec: &FoldSpec, name: &str) -> &FoldedColumn {
        match spec.place(name) {
            Some(index) => self.column(spec, index),
            None => {
                let len = self.block.len();
                self.absent.get_or_insert_with(|| FoldedColumn::absent(len, Types::default()))
            }
        }
    }
}

fn compare(column: &FoldedColumn, side: Side, comparison: Comparison, values: &[Scalar]) -> Bits {
    if column.is_absent() {
        return Bits::new(column.len());
    }
    // The common case, without a look at the type of each cell.
    if let ([Scalar::Float(value)], Some(floats)) = (values, column.floats()) {
        let value = *value;
        let mut bits = match comparison {
            Comparison::Equal => Bits::from_fn(column.len(), |slot| floats(slot) == value),
            Comparison::NotEqual => Bits::from_fn(column.len(), |slot| floats(slot) != value),
            Comparison::Less => Bits::from_fn(column.len(), |slot| floats(slot) < value),
            Comparison::LessOrEqual => Bits::from_fn(column.len(), |slot| floats(slot) <= value),
            Comparison::Greater => Bits::from_fn(column.len(), |slot| floats(slot) > value),
            Comparison::GreaterOrEqual => Bits::from_fn(column.len(), |slot| floats(slot) >= value),
        };
        bits.and(&column.present());
        return bits;
    }
    Bits::from_fn(column.len(), |slot| {
        let Some(found) = column.get(slot) else { return false };
        if side == Side::Text && !matches!(found, Value::Text(_)) {
            return false;
        }
        values.iter().any(|value| holds(found, comparison, value))
    })
}

/// Compares a winning value with a given one. A text and a number are not compared: for each the other is
/// missing.
fn holds(found: Value<'_>, comparison: Comparison, value: &Scalar) -> bool {
    match (found, value) {
        (_, Scalar::Null) => false,
        (Value::Text(found), Scalar::Text(value)) => comparison.holds(Some(found.cmp(value.as_str()))),
        (Value::Text(_), _) | (_, Scalar::Text(_)) => false,
        (found, value) => match (Number::of(found), Number::of_scalar(value)) {
            (Some(found), Some(value)) => comparison.holds(found.partial_cmp(&value)),
            _ => false,
        },
    }
}

/// A number as it was stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// The number that a value is; text is none.
    pub(crate) fn of(value: Value<'_>) -> Option<Number> {
        match value {
            Value::Bool(value) => Some(Number::Int(i64::from(value))),
            Value::Int(value) => Some(Number::Int(value)),
            Value::Float(value) => Some(Number::Float(value)),
            Value::Text(_) => None,
        }
    }

    pub(crate) fn of_scalar(value: &Scalar) -> Option<Number> {
        match value {
            Scalar::Bool(value) => Some(Number::Int(i64::from(*value))),
            Scalar::Int(value) => Some(Number::Int(*value)),
            Scalar::Float(value) => Some(Number::Float(*value)),
            Scalar::Null | Scalar::Text(_) => None,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Number::Float(value) if value.is_nan())
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    /// The order of the numbers themselves: no integer is rounded to a float for it.
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (*self, *other) {
            (Number::Int(one), Number::Int(other)) => Some(one.cmp(&other)),
            (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other),
            (Number::Int(one), Number::Float(other)) => compare_int(one, other),
            (Number::Float(one), Number::Int(other)) => compare_int(other, one).map(Ordering::reverse),
        }
    }
}

/// Compares an integer with a float, exactly.
fn compare_int(int: i64, float: f64) -> Option<Ordering> {
    /// 2^63, the first float above all integers.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= END {
        return Some(Ordering::Less);
    }
    if float < -END {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and between the bounds")]
    let as_int = whole as i64;
    let fraction = || 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal);
    Some(int.cmp(&as_int).then_with(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_and_a_float_are_compared_exactly() {
        let big = (1_i64 << 53) + 1;
        let near = 9_007_199_254_740_992.0;
        assert_eq!(compare_int(big, near), Some(Ordering::Greater));
        assert_eq!(compare_int(-big, -near), Some(Ordering::Less));
        assert_eq!(compare_int(3, 3.0), Some(Ordering::Equal));
        assert_eq!(compare_int(3, 3.5), Some(Ordering::Less));
        assert_eq!(compare_int(-3, -3.5), Some(Ordering::Greater));
        assert_eq!(compare_int(i64::MAX, 9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert_eq!(compare_int(i64::MIN, -9_223_372_036_854_775_808.0), Some(Ordering::Equal));
        assert_eq!(compare_int(i64::MIN, f64::NEG_INFINITY), Some(Ordering::Greater));
        assert_eq!(compare_int(i64::MAX, f64::INFINITY), Some(Ordering::Less));
        assert_eq!(compare_int(0, f64::NAN), None);
        assert_eq!(compare_int(0, -0.0), Some(Ordering::Equal));
    }

    #[test]
    fn nan_compares_as_ieee_says_and_text_never_with_numbers() {
        let nan = Scalar::Float(f64::NAN);
        assert!(holds(Value::Float(f64::NAN), Comparison::NotEqual, &nan));
        assert!(!holds(Value::Float(f64::NAN), Comparison::Equal, &nan));
        assert!(!holds(Value::Float(f64::NAN), Comparison::Less, &Scalar::Int(1)));
        assert!(holds(Value::Bool(true), Comparison::Equal, &Scalar::Int(1)));
        assert!(!holds(Value::Text("1"), Comparison::NotEqual, &Scalar::Int(1)));
        assert!(!holds(Value::Int(1), Comparison::NotEqual, &Scalar::Text("1".into())));
        assert!(holds(Value::Text("b"), Comparison::Greater, &Scalar::Text("a".into())));
        assert!(!holds(Value::Int(1), Comparison::NotEqual, &Scalar::Null));
    }
}
