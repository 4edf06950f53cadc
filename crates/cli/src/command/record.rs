//! `waycairn record`: records of any program, as lines of JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, json};
use waycairn_dag::{Address, Node, Nonce};
use waycairn_store::{ObjectStore, Scalar, StoreError, StoreOptions};
use waycairn_train::Stop;

use crate::context::Context;
use crate::error::{CliError, Exit, one_line};
use crate::failure;
use crate::number::plural;
use crate::output::Destination;
use crate::progress::LogWriter;
use crate::value::Value;
use crate::wait::UntilStop;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// Longest line that is read.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Record what stands on standard input: a JSON object a line, from a program in any language
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn record < records.jsonl

Such a file, or what a program writes into a pipe:
  {\"name\": \"sim\", \"nonce\": \"94ab\", \"seq\": 0, \"fields\": {\"energy\": -1.5}}
  {\"flush\": true}

A line is {name, seq, nonce?, process?, parent?, tag?, fields?}: `fields` are bools, 64-bit integers, floats, strings and null;
a float that JSON cannot say is {\"$float\": \"NaN\"}, \"Infinity\" or \"-Infinity\". Without a nonce the lines of one name are one
new run, whose nonce is told on standard error. `parent` is an address, as `waycairn show --format json` gives it. Of several
processes that record one node the one with the lowest number wins; 0 is the default.

{\"flush\": true} is answered by a line {\"durable\": n} on standard output when the n records so far survive a loss of power and
everybody sees them. {\"close\": true}, or the end of the input, flushes and ends. Between the two, a record is in the journal
after a tenth of a second: if this program or yours is killed, it comes back. On a full disk records wait until there is room,
and so does the answer to a flush.

Ctrl-C, SIGTERM and whatever else asks for a stop end it in good order, with the exit status 4: the lines that it has read are
recorded, and a last answer counts what is durable. A second Ctrl-C ends it at once.

A line that cannot be recorded is told on standard error with its number, and harms no other: then {\"durable\": n, \"refused\": m}
counts them, and the exit status is 1.")]
pub(crate) struct RecordArgs {
    /// jsonl: what answers a flush is JSON, whatever is said here
    #[arg(long, value_name = "FORMAT", hide = true)]
    pub(super) format: Option<crate::output::ShapeFormat>,
}

/// What a line may say.
#[derive(Debug)]
enum Line {
    Flush(Flush),
    Close(Close),
    Record(Record),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flush {
    flush: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Close {
    close: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    name: String,
    nonce: Option<String>,
    seq: u64,
    #[serde(default)]
    process: i64,
    parent: Option<Address>,
    tag: Option<String>,
    #[serde(default)]
    fields: Map<String, serde_json::Value>,
}

pub(crate) fn run(args: &RecordArgs, context: &Context) -> Result<Exit, CliError> {
    // Every command takes a format; this one has a single one.
    let _ = args.format;
    context.note_other_root();
    let stop = listen().map_err(CliError::system)?;
    let (stores, nonces) = (BTreeMap::new(), BTreeMap::new());
    let mut recorder = Recorder { context, stop: stop.clone(), stores, nonces, refused: 0 };
    let mut answers = Answers { out: Destination::standard_output(), unread: false };
    // Before the first line, so that a root that cannot be written is told at once.
    recorder.store(0, None)?;
    stop.begin();
    let mut input = BufReader::with_capacity(BUFFER, UntilStop::new(stop.clone()).map_err(CliError::system)?);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let read = read.map_err(CliError::system)?;
        // A stop may have come in the middle of a line.
        if read == 0 || (stop.is_requested() && !line.ends_with(b"\n")) {
            break;
        }
        if line.len() as u64 == MAX_LINE_BYTES {
            // What follows is the rest of it, and no line of its own.
            return Err(CliError::new("record", format!("line {number} has over {MAX_LINE_BYTES} bytes"))
                .why("a record is a few scalar values")
                .next("attach what is large to the node as a file; the lines before were recorded"));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match recorder.take(&line) {
            Ok(Asked::Nothing) => {}
            Ok(Asked::Flush) => answers.say(&recorder.flush()?),
            Ok(Asked::Close) => break,
            Err(Refused::Line(what)) => recorder.refuse(number, &what),
            Err(Refused::Store(error)) => return Err(error),
        }
    }
    let (stopped, unread) = (stop.is_requested(), answers.unread);
    if stopped {
        // Whoever was to read it may have been stopped as well.
        answers.say(&recorder.flush()?);
    }
    let refused = recorder.close(stopped)?;
    if unread {
        return Err(CliError::new("io", "the answers to flushes could not be written")
            .why("what was to read them has gone")
            .next("all lines were recorded; read the answers to the end, or send them to /dev/null"));
    }
    if refused > 0 {
        return Err(CliError::new("record", format!("{} not recorded", plural(refused, "line")))
            .why("each was told with its number; all others were recorded")
            .next("correct those lines and record them again"));
    }
    Ok(if stopped { Exit::Stopped } else { Exit::Done })
}

/// Listens for signals that ask for a stop; one that comes before there is a root to record into ends the program.
fn listen() -> std::io::Result<Stop> {
    let stopping = || {
        let line = "stopping after what was read; a second Ctrl-C stops at once\n";
        drop(LogWriter.write_all(line.as_bytes()));
    };
    Stop::on_signals(|| Exit::Stopped as i32, stopping)
}

/// What is said on standard output.
struct Answers {
    out: Destination,
    /// Whether nobody reads it any more.
    unread: bool,
}

impl Answers {
    fn say(&mut self, durable: &Value) {
        // Somebody who reads no answers has recorded all the same.
        self.unread = self.unread || self.out.json_line(durable).and_then(|()| self.out.settle()).is_err();
    }
}

/// What a line asks for besides being recorded.
enum Asked {
    Nothing,
    Flush,
    Close,
}

/// Why a line was not taken.
enum Refused {
    /// The line is wrong; the next one may be right.
    Line(String),
    /// The store is.
    Store(CliError),
}

struct Recorder<'a> {
    context: &'a Context,
    stop: Stop,
    /// A store has one process index and one tag.
    stores: BTreeMap<(i64, Option<String>), ObjectStore>,
    /// Those of runs whose lines have none.
    nonces: BTreeMap<String, String>,
    refused: u64,
}

impl Recorder<'_> {
    fn take(&mut self, line: &[u8]) -> Result<Asked, Refused> {
        let record = match parse(line).map_err(Refused::Line)? {
            Line::Flush(Flush { flush }) => return Ok(if flush { Asked::Flush } else { Asked::Nothing }),
            Line::Close(Close { close }) => return Ok(if close { Asked::Close } else { Asked::Nothing }),
            Line::Record(record) => record,
        };
        let Record { name, nonce, seq, process, parent, tag, fields } = record;
        let fields = fields
            .iter()
            .map(|(key, value)| Ok((key.as_str(), scalar(key, value)?)))
            .collect::<Result<Vec<_>, String>>()
            .map_err(Refused::Line)?;
        let refused = |error: &dyn std::error::Error| Refused::Line(one_line(&error.to_string()));
        // A name that cannot be one draws no nonce.
        Node::new(&name, nonce.as_deref().unwrap_or("0"), seq).map_err(|error| refused(&error))?;
        let nonce = match nonce {
            Some(nonce) => nonce,
            None => self.nonce(&name).map_err(Refused::Store)?,
        };
        let node = Node::new(&name, &nonce, seq).map_err(|error| refused(&error))?.with_parent(parent);
        if let Some(tag) = &tag {
            waycairn_store::check_tag(tag).map_err(|error| refused(&error))?;
        }
        let store = self.store(process, tag).map_err(Refused::Store)?;
        match store.value(&node, &fields) {
            Ok(()) => Ok(Asked::Nothing),
            Err(error) if error.is_final() => Err(Refused::Store(failure::store(error.into()))),
            Err(error) => Err(refused(&error)),
        }
    }

    fn store(&mut self, process: i64, tag: Option<String>) -> Result<&ObjectStore, CliError> {
        use std::collections::btree_map::Entry;
        match self.stores.entry((process, tag)) {
            Entry::Occupied(store) => Ok(store.into_mut()),
            Entry::Vacant(place) => {
                let (process, tag) = place.key().clone();
                let options = StoreOptions { process, tag, ..StoreOptions::default() };
                let root = self.context.root_to_write().path;
                Ok(place.insert(ObjectStore::open(&root, options).map_err(failure::store)?))
            }
        }
    }

    /// The nonce of the lines of a name that have none.
    fn nonce(&mut self, name: &str) -> Result<String, CliError> {
        if let Some(nonce) = self.nonces.get(name) {
            return Ok(nonce.clone());
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| CliError::of("io", error))?;
        let nonce = Nonce::from_random(bytes).as_str().to_owned();
        self.context.note(&format!("new run {}", crate::table::printable(&format!("{name}@{nonce}"))));
        self.nonces.insert(name.to_owned(), nonce.clone());
        Ok(nonce)
    }

    fn refuse(&mut self, line: u64, what: &str) {
        self.refused += 1;
        // Nobody may be reading; the count tells it too.
        drop(writeln!(std::io::stderr().lock(), "line {line}: {what}"));
    }

    /// Makes all records durable, and says how many there are. While the disk is full it waits, and says so, unless it is to
    /// stop.
    fn flush(&self) -> Result<Value, CliError> {
        let mut durable = 0;
        let mut told = false;
        for store in self.stores.values() {
            durable += loop {
                match store.flush() {
                    Ok(report) => break report.records,
                    Err(StoreError::Full { records, .. }) if !self.stop.is_requested() => {
                        if !std::mem::replace(&mut told, true) {
                            let records = plural(records, "record");
                            self.context
                                .note(&format!("the disk is full: {records} wait until there is room"));
                        }
                    }
                    Err(error) => return Err(failure::store(error)),
                }
            };
        }
        Ok(Value::from(match self.refused {
            0 => json!({"durable": durable}),
            refused => json!({"durable": durable, "refused": refused}),
        }))
    }

    /// Whoever asked for a stop may kill soon: then the parts stay as they are.
    fn close(self, stopped: bool) -> Result<u64, CliError> {
        let close = if stopped { ObjectStore::close_uncompacted } else { ObjectStore::close };
        // All are closed before an error of one is told.
        let closed: Vec<_> = self.stores.values().map(close).collect();
        closed.into_iter().collect::<Result<Vec<_>, _>>().map_err(failure::store)?;
        Ok(self.refused)
    }
}

/// Reads a line, and says of one that is none what is wrong with it.
fn parse(line: &[u8]) -> Result<Line, String> {
    let value: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
    let Some(object) = value.as_object() else {
        return Err("no JSON object: a record is {\"name\": .., \"seq\": .., \"fields\": {..}}".to_owned());
    };
    let line = if object.contains_key("flush") {
        serde_json::from_value(value).map(Line::Flush)
    } else if object.contains_key("close") {
        serde_json::from_value(value).map(Line::Close)
    } else {
        serde_json::from_value(value).map(Line::Record)
    };
    line.map_err(|error| one_line(&error.to_string()))
}

/// A value of a field; a float that JSON cannot say is an object of one key.
fn scalar(key: &str, value: &serde_json::Value) -> Result<Scalar, String> {
    let float = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("$float"));
    match float.and_then(serde_json::Value::as_str) {
        Some("NaN") => Ok(Scalar::Float(f64::NAN)),
        Some("Infinity") => Ok(Scalar::Float(f64::INFINITY)),
        Some("-Infinity") => Ok(Scalar::Float(f64::NEG_INFINITY)),
        _ => Scalar::try_from(value).map_err(|error| format!("the field `{}`: {error}", one_line(key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_what_is_wrong_with_a_line_is_told() {
        let wrong = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert!(wrong("{").starts_with("no JSON: EOF"));
        assert!(wrong("[1]").starts_with("no JSON object"));
        assert!(wrong("{\"seq\": 1}").contains("missing field `name`"));
        assert!(wrong("{\"name\": \"a\", \"seq\": -1}").contains("invalid value"));
        assert!(wrong("{\"name\": \"a\", \"seq\": 1, \"step\": 2}").contains("unknown field `step`"));
        assert!(wrong("{\"flush\": true, \"name\": \"a\"}").contains("unknown field `name`"));
        assert!(wrong("{\"name\": \"a\", \"seq\": 1, \"parent\": \"?\"}").contains("base64"));
        assert!(matches!(parse(b"{\"flush\": true}"), Ok(Line::Flush(Flush { flush: true }))));
    }

    #[test]
    fn cli_2_numbers_keep_their_types() {
        let of = |text: &str| scalar("a", &serde_json::from_str(text).unwrap());
        assert_eq!(of("3"), Ok(Scalar::Int(3)));
        assert_eq!(of("3.0"), Ok(Scalar::Float(3.0)));
        assert!(matches!(of("{\"$float\": \"NaN\"}"), Ok(Scalar::Float(value)) if value.is_nan()));
        assert_eq!(of("{\"$float\": \"-Infinity\"}"), Ok(Scalar::Float(f64::NEG_INFINITY)));
        for text in ["18446744073709551615", "[1]", "{\"$float\": \"x\"}", "{\"$float\": \"NaN\", \"b\": 1}"]
        {
            assert!(of(text).unwrap_err().contains("the field `a`"), "{text}");
        }
    }
}
