//! The text form of expressions.

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{string_to_datetime, string_to_timestamp_nanos};
use thiserror::Error;
use waycairn_dag::{Address, Node};
use winnow::ascii::multispace0;
use winnow::combinator::{cut_err, opt, preceded, repeat, separated, terminated};
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{Location, Stream};
use winnow::token::{any, take_while};
use winnow::{LocatingSlice, Parser, Stateful};

use crate::field::Scalar;
use crate::query::expression::{
    Comparison, FieldTerm, IdentityTerm, MarkerTerm, ProjectPattern, RecordTerm, Term,
};

/// Parentheses and `not` may be nested this deep.
const MAX_DEPTH: u32 = 100;

/// Before a key that is called like a word of the language.
pub(crate) const FIELD_PREFIX: &str = "field:";

/// The words that mean something other than the field of that name. They are no keys of `has` and `missing`: what is
/// meant would be seen from an empty answer only.
const WORDS: [&str; 13] = [
    "name",
    "nonce",
    "node",
    "seq",
    "project",
    "checkpoint",
    "artifact",
    "finished",
    "job",
    "execution",
    "tag",
    "process",
    "written",
];

const TERM: &str = "a field, `has`, `missing`, `not` or `(`";
const KEY: &str = "a field";
const OPERATOR: &str = "an operator (`=`, `!=`, `<`, `<=`, `>`, `>=` or `in`)";
const EQUALITY: &str = "`=`, `!=` or `in`";
const EQUAL: &str = "`=`";
const ORDER: &str = "`<`, `<=`, `>` or `>=`";
const VALUE: &str = "a number, `true`, `false` or a string in single quotes";
const TEXT: &str = "a string in single quotes";
const WHOLE: &str = "a whole number";
const NODE: &str = "an address or `name@nonce:seq` in single quotes";
const PROJECT: &str = "`project.group.run` in single quotes, with `*` for any part";
const TIME_RANGE: &str = "a time from 1677-09-22 to 2262-04-11, since times are counted in nanoseconds";
const TIME: &str = "a time like '2026-11-30T12:00:00Z' in single quotes, or nanoseconds since 1970";
const OPEN: &str = "`(`";
const CLOSE: &str = "`)`";
const QUOTE: &str = "a closing quote";
const END: &str = "`and`, `or` or the end";
const ALONE: &str =
    "no operator: `checkpoint` and `finished` stand alone, and a field of that name is written `field:NAME`";
const PLAIN_KEY: &str =
    "a field: this is a word of the language, and a field of that name is written `field:NAME`";
const DEPTH: &str = "less than 100 levels of parentheses and `not`";

/// Where a text is no expression, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("at character {}: expected {expected}, found {found}", self.column())]
pub struct ParseError {
    /// Offset in bytes of the first place that does not fit.
    pub position: usize,
    /// What stands there.
    pub found: String,
    /// What would fit.
    pub expected: String,
    /// The whole text.
    pub text: String,
}

impl ParseError {
    /// The place as people count it: the first character is 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.text.get(..self.position).map_or(1, |before| before.chars().count() + 1)
    }
}

type Input<'a> = Stateful<LocatingSlice<&'a str>, u32>;
type Parsed<T> = Result<T, ErrMode<Failure>>;

/// The error inside of the parser.
#[derive(Clone, Copy, Debug)]
struct Failure {
    position: usize,
    expected: &'static str,
}

impl ParserError<Input<'_>> for Failure {
    type Inner = Self;

    fn from_input(input: &Input<'_>) -> Self {
        Failure { position: input.current_token_start(), expected: TERM }
    }

    /// The branch that came further knows better.
    fn or(self, other: Self) -> Self {
        if self.position > other.position { self } else { other }
    }

    fn into_inner(self) -> Result<Self::Inner, Self> {
        Ok(self)
    }
}

/// Reads a whole text.
pub(crate) fn parse(text: &str) -> Result<Term, ParseError> {
    let input = Stateful { input: LocatingSlice::new(text), state: 0 };
    let mut whole = terminated(disjunction, end);
    let failure = match whole.parse_next(&mut { input }) {
        Ok(term) => return Ok(term),
        Err(ErrMode::Backtrack(failure) | ErrMode::Cut(failure)) => failure,
        Err(ErrMode::Incomplete(_)) => Failure { position: text.len(), expected: END },
    };
    let Failure { position, expected } = failure;
    Err(ParseError {
        position,
        found: found(text, position),
        expected: expected.to_owned(),
        text: text.to_owned(),
    })
}

/// Shows what stands at a place: a word, a text with its quotes, or one other character.
fn found(text: &str, position: usize) -> String {
    let rest = text.get(position..).unwrap_or_default();
    let Some(first) = rest.chars().next() else { return "the end".to_owned() };
    let length = match first {
        '"' | '\'' => {
            let close = rest[1..].find(first).map(|at| at + 1 + first.len_utf8());
            close.unwrap_or(rest.len())
        }
        _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        _ => first.len_utf8(),
    };
    let word: String = rest[..length].chars().take(40).collect();
    let more = if word.len() < length { ".." } else { "" };
    let shown: String =
        word.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    format!("`{shown}{more}`")
}

fn is_word(character: char) -> bool {
    !character.is_whitespace() && !"=<>!(),'\"".contains(character)
}

fn fail<T>(position: usize, expected: &'static str) -> Parsed<T> {
    Err(ErrMode::Cut(Failure { position, expected }))
}

/// Skips white space and says where the next token begins.
fn start(input: &mut Input<'_>) -> Parsed<usize> {
    multispace0.void().parse_next(input)?;
    Ok(input.current_token_start())
}

fn end(input: &mut Input<'_>) -> Parsed<()> {
    let position = start(input)?;
    if input.eof_offset() == 0 { Ok(()) } else { fail(position, END) }
}

fn disjunction(input: &mut Input<'_>) -> Parsed<Term> {
    let first = conjunction(input)?;
    let rest: Vec<Term> = repeat(0.., preceded(keyword("or"), cut_err(conjunction))).parse_next(input)?;
    Ok(if rest.is_empty() { first } else { Term::any(std::iter::once(first).chain(rest)) })
}

fn conjunction(input: &mut Input<'_>) -> Parsed<Term> {
    let first = term(input)?;
    let rest: Vec<Term> = repeat(0.., preceded(keyword("and"), cut_err(term))).parse_next(input)?;
    Ok(if rest.is_empty() { first } else { Term::all(std::iter::once(first).chain(rest)) })
}

fn term(input: &mut Input<'_>) -> Parsed<Term> {
    let position = start(input)?;
    input.state += 1;
    if input.state > MAX_DEPTH {
        return fail(position, DEPTH);
    }
    let term = if opt('(').parse_next(input)?.is_some() {
        let inner = disjunction(input)?;
        let position = start(input)?;
        if opt(')').parse_next(input)?.is_none() {
            return fail(position, CLOSE);
        }
        inner
    } else {
        match opt(quoted('"')).parse_next(input)? {
            Some(key) => field_condition(input, key)?,
            None => after_word(input, position)?,
        }
    };
    input.state -= 1;
    Ok(term)
}

/// A term that begins with a bare word.
fn after_word(input: &mut Input<'_>, position: usize) -> Parsed<Term> {
    let Some(word) = opt(word).parse_next(input)? else { return fail(position, TERM) };
    let lower = word.to_ascii_lowercase();
    // A field may be called `has`: then an operator follows, and no key.
    let compares = peek_operator(input);
    match lower.as_str() {
        "and" | "or" => fail(position, TERM),
        "not" if !compares => Ok(Term::Not(Box::new(term(input)?))),
        "has" if !compares => Ok(Term::Field(FieldTerm::Has(key(input)?))),
        "missing" if !compares => Ok(Term::Field(FieldTerm::Missing(key(input)?))),
        _ => match word {
            "name" => texts(input, IdentityTerm::Name, Term::Identity),
            "nonce" => texts(input, IdentityTerm::Nonce, Term::Identity),
            "node" => node_condition(input),
            "seq" => seq_condition(input),
            "project" => {
                equal(input, PROJECT, |text| Some(Term::Identity(IdentityTerm::Project(project(text)?))))
            }
            "checkpoint" | "finished" if compares => fail(start(input)?, ALONE),
            "checkpoint" => Ok(Term::Marker(MarkerTerm::Checkpoint)),
            "artifact" if !compares => Ok(Term::Marker(MarkerTerm::Artifact)),
            "artifact" => texts(input, MarkerTerm::ArtifactNamed, Term::Marker),
            "finished" => Ok(Term::Finished),
            "job" => texts(input, MarkerTerm::Job, Term::Marker),
            "execution" => {
                equal(input, TEXT, |text| Some(Term::Record(RecordTerm::Execution(text.to_owned()))))
            }
            "tag" => equal(input, TEXT, |text| Some(Term::Record(RecordTerm::Tag(text.to_owned())))),
            "process" => process_condition(input),
            "written" => written_condition(input),
            word => field_condition(input, word.strip_prefix(FIELD_PREFIX).unwrap_or(word).to_owned()),
        },
    }
}

/// `KEY OPERATOR VALUE` after the key.
fn field_condition(input: &mut Input<'_>, key: String) -> Parsed<Term> {
    Ok(Term::Field(match operator(input, OPERATOR)? {
        Operator::Compare(comparison) => FieldTerm::Compare { key, comparison, value: value(input)? },
        Operator::In => FieldTerm::OneOf { key, values: list(input, value)? },
    }))
}

/// `WORD = 'TEXT'`, `WORD != 'TEXT'`, `WORD in ('TEXT', ..)` after the word.
fn texts<T>(input: &mut Input<'_>, make: fn(String) -> T, wrap: fn(T) -> Term) -> Parsed<Term> {
    equality(input, |input| Ok(wrap(make(text(input, TEXT)?))))
}

fn node_condition(input: &mut Input<'_>) -> Parsed<Term> {
    equality(input, |input| {
        let position = start(input)?;
        match node(&text(input, NODE)?) {
            Some(node) => Ok(Term::Identity(IdentityTerm::Node(node))),
            None => fail(position, NODE),
        }
    })
}

fn equality(input: &mut Input<'_>, mut one: impl FnMut(&mut Input<'_>) -> Parsed<Term>) -> Parsed<Term> {
    let position = start(input)?;
    match operator(input, EQUALITY)? {
        Operator::Compare(Comparison::Equal) => one(input),
        Operator::Compare(Comparison::NotEqual) => Ok(Term::Not(Box::new(one(input)?))),
        Operator::Compare(_) => fail(position, EQUALITY),
        Operator::In => Ok(Term::any(list(input, one)?)),
    }
}

fn equal(input: &mut Input<'_>, expected: &'static str, make: impl Fn(&str) -> Option<Term>) -> Parsed<Term> {
    let position = start(input)?;
    if operator(input, EQUAL)? != Operator::Compare(Comparison::Equal) {
        return fail(position, EQUAL);
    }
    let position = start(input)?;
    match make(&text(input, expected)?) {
        Some(term) => Ok(term),
        None => fail(position, expected),
    }
}

fn seq_condition(input: &mut Input<'_>) -> Parsed<Term> {
    let seq = |comparison, value| Term::Identity(IdentityTerm::Seq { comparison, value });
    match operator(input, OPERATOR)? {
        Operator::Compare(comparison) => Ok(seq(comparison, whole(input)?)),
        Operator::In => {
            let values = list(input, whole)?;
            Ok(Term::any(values.into_iter().map(|value| seq(Comparison::Equal, value))))
        }
    }
}

fn process_condition(input: &mut Input<'_>) -> Parsed<Term> {
    let position = start(input)?;
    if operator(input, EQUAL)? != Operator::Compare(Comparison::Equal) {
        return fail(position, EQUAL);
    }
    Ok(Term::Record(RecordTerm::Process(whole(input)?)))
}

fn written_condition(input: &mut Input<'_>) -> Parsed<Term> {
    let position = start(input)?;
    let operator = operator(input, ORDER)?;
    let place = start(input)?;
    let time = match value(input) {
        Ok(Scalar::Int(nanos)) => nanos,
        Ok(Scalar::Text(text)) => match nanos(&text) {
            Some(nanos) => nanos,
            None if is_beyond(&text) => return fail(place, TIME_RANGE),
            None => return fail(place, TIME),
        },
        _ => return fail(place, TIME),
    };
    let (from, until) = match operator {
        Operator::Compare(Comparison::GreaterOrEqual) => (Some(time), None),
        Operator::Compare(Comparison::Greater) => (Some(time.saturating_add(1)), None),
        Operator::Compare(Comparison::Less) => (None, Some(time)),
        Operator::Compare(Comparison::LessOrEqual) => (None, Some(time.saturating_add(1))),
        _ => return fail(position, ORDER),
    };
    Ok(Term::Record(RecordTerm::Written { from, until }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Compare(Comparison),
    In,
}

fn operator(input: &mut Input<'_>, expected: &'static str) -> Parsed<Operator> {
    let position = start(input)?;
    let sign: &str = take_while(0.., ['=', '<', '>', '!']).parse_next(input)?;
    Ok(Operator::Compare(match sign {
        "=" | "==" => Comparison::Equal,
        "!=" | "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        "" if opt(keyword("in")).parse_next(input)?.is_some() => return Ok(Operator::In),
        _ => return fail(position, expected),
    }))
}

/// Whether an operator follows.
fn peek_operator(input: &mut Input<'_>) -> bool {
    let before = input.checkpoint();
    let follows = operator(input, OPERATOR).is_ok();
    input.reset(&before);
    follows
}

fn list<T>(input: &mut Input<'_>, item: impl FnMut(&mut Input<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    let position = start(input)?;
    if opt('(').parse_next(input)?.is_none() {
        return fail(position, OPEN);
    }
    let comma = (multispace0, ',');
    let items = separated(1.., item, comma).parse_next(input)?;
    let position = start(input)?;
    if opt(')').parse_next(input)?.is_none() {
        return fail(position, CLOSE);
    }
    Ok(items)
}

fn key(input: &mut Input<'_>) -> Parsed<String> {
    let position = start(input)?;
    if let Some(key) = opt(quoted('"')).parse_next(input)? {
        return Ok(key);
    }
    match opt(word).parse_next(input)? {
        Some(word) if WORDS.contains(&word) => fail(position, PLAIN_KEY),
        Some(word) => Ok(word.strip_prefix(FIELD_PREFIX).unwrap_or(word).to_owned()),
        None => fail(position, KEY),
    }
}

fn value(input: &mut Input<'_>) -> Parsed<Scalar> {
    let position = start(input)?;
    if let Some(text) = opt(quoted('\'')).parse_next(input)? {
        return Ok(Scalar::Text(text));
    }
    match opt(word).parse_next(input)?.and_then(scalar) {
        Some(value) => Ok(value),
        None => fail(position, VALUE),
    }
}

/// Reads a bare word as a value.
fn scalar(word: &str) -> Option<Scalar> {
    match word.to_ascii_lowercase().as_str() {
        "true" => Some(Scalar::Bool(true)),
        "false" => Some(Scalar::Bool(false)),
        number => {
            let int = number.parse().map(Scalar::Int);
            int.or_else(|_| number.parse().map(Scalar::Float)).ok()
        }
    }
}

fn whole(input: &mut Input<'_>) -> Parsed<i64> {
    let position = start(input)?;
    match value(input) {
        Ok(Scalar::Int(value)) => Ok(value),
        _ => fail(position, WHOLE),
    }
}

fn text(input: &mut Input<'_>, expected: &'static str) -> Parsed<String> {
    let position = start(input)?;
    match opt(quoted('\'')).parse_next(input)? {
        Some(text) => Ok(text),
        None => fail(position, expected),
    }
}

fn word<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    take_while(1.., is_word).parse_next(input)
}

fn keyword<'a>(keyword: &'static str) -> impl Parser<Input<'a>, (), ErrMode<Failure>> {
    preceded(multispace0, word.verify(move |word: &str| word.eq_ignore_ascii_case(keyword))).void()
}

/// A text in quotes; a doubled quote stands for one.
fn quoted<'a>(quote: char) -> impl Parser<Input<'a>, String, ErrMode<Failure>> {
    move |input: &mut Input<'a>| {
        let position = input.current_token_start();
        let mut opening = quote;
        opening.parse_next(input)?;
        let mut text = String::new();
        loop {
            let plain: &str = take_while(0.., move |c| c != quote).parse_next(input)?;
            text.push_str(plain);
            if opt(any::<_, ErrMode<Failure>>).parse_next(input)?.is_none() {
                return fail(position, QUOTE);
            }
            if opt(quote).parse_next(input)?.is_none() {
                return Ok(text);
            }
            text.push(quote);
        }
    }
}

/// Reads a node that is written in full: its address, or `name@nonce:seq`.
pub(crate) fn node(text: &str) -> Option<Node> {
    if let Ok(address) = text.parse::<Address>() {
        return Some(address.decode());
    }
    let (run, seq) = text.rsplit_once(':')?;
    let (name, nonce) = run.rsplit_once('@')?;
    Node::new(name, nonce, decimal(seq)?).ok()
}

/// Reads a position: digits only.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn project(text: &str) -> Option<ProjectPattern> {
    let mut parts = text.splitn(3, '.').map(|part| (part != "*").then(|| part.to_owned()));
    Some(ProjectPattern { parts: [parts.next()?, parts.next()?, parts.next()?] })
}

/// Whether a text is a time that nanoseconds cannot count.
fn is_beyond(text: &str) -> bool {
    let utc: Option<Tz> = "+00:00".parse().ok();
    utc.is_some_and(|utc| string_to_datetime(&utc, text).is_ok())
}

fn nanos(text: &str) -> Option<i64> {
    string_to_timestamp_nanos(text).ok()
}

#[cfg(test)]
mod tests;
