//! `waycairn record`: records of any program, as lines of JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::json;
use serde_json::value::RawValue;
use waycairn_dag::{Address, Node, Nonce};
use waycairn_store::{CloseReport, ObjectStore, RecordError, Scalar, StoreError, StoreOptions, WhenFull};
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
and so do the answer to a flush and the end.

Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end it in good order, with the exit status 4: the lines that it has read are recorded, and
a last answer counts what is durable. On a full disk it says instead what is in the journal. A second Ctrl-C ends it at once.

More than 64 tags and process numbers in turn make many small parts, which `waycairn compact` merges.

A line that cannot be recorded is told on standard error with its number, and harms no other: then {\"durable\": n, \"refused\": m}
counts them, and the exit status is 1.")]
pub(crate) struct RecordArgs {
    /// jsonl: what answers a flush is JSON, whatever is said here
    #[arg(long, value_name = "FORMAT", hide = true)]
    pub(super) format: Option<crate::output::ShapeFormat>,
}

/// How long a record waits for room before it is looked whether to stop.
const PATIENCE: Duration = Duration::from_millis(500);

/// Most stores that are open at once. Each has threads and files of its own, and a program may have any number of tags.
const MAX_STORES: usize = 64;

/// What a line may say.
#[derive(Debug)]
enum Line<'a> {
    Flush(Flush),
    Close(Close),
    Record(Record<'a>),
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
struct Record<'a> {
    name: String,
    nonce: Option<String>,
    seq: u64,
    #[serde(default)]
    process: i64,
    parent: Option<Address>,
    tag: Option<String>,
    #[serde(default, borrow)]
    fields: Fields<'a>,
}

/// The fields as they stand there: each one, and each digit of a number.
#[derive(Debug, Default)]
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// A float that JSON cannot say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Float {
    #[serde(rename = "$float")]
    float: String,
}

pub(crate) fn run(args: &RecordArgs, context: &Context) -> Result<Exit, CliError> {
    // Every command takes a format; this one has a single one.
    let _ = args.format;
    context.note_other_root();
    let stop = listen().map_err(CliError::system)?;
    let mut recorder = Recorder::new(context, stop.clone())?;
    let mut answers = Answers { out: Destination::standard_output(), unread: false };
    // Before the first line, so that a root that cannot be written is told at once.
    recorder.store(0, None)?;
    stop.begin();
    let mut input = BufReader::with_capacity(BUFFER, UntilStop::new(stop.clone()).map_err(CliError::system)?);
    let (mut line, mut failed) = (Vec::new(), None);
    for number in 1_u64.. {
        line.clear();
        let read = input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line);
        let read = read.map_err(CliError::system)?;
        let whole = line.ends_with(b"\n");
        let long = read as u64 > MAX_LINE_BYTES && !whole;
        // A stop may have come in the middle of a line.
        if read == 0 || (stop.is_requested() && !whole) {
            break;
        }
        if long {
            recorder.refuse(number, &format!("over {MAX_LINE_BYTES} bytes; a record is a few scalar values"));
            input.skip_until(b'\n').map_err(CliError::system)?;
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match recorder.take(&line) {
            Ok(Asked::Nothing) => {}
            Ok(Asked::Flush) => match recorder.flush() {
                Ok(durable) => answers.say(&durable),
                // What failed is told when the stores are closed.
                Err(_) => break,
            },
            Ok(Asked::Close) => break,
            Err(Refused::Line(what)) => recorder.refuse(number, &what),
            Err(Refused::Store(error)) => {
                recorder.refuse(number, "neither it nor what follows is recorded");
                failed = Some(error);
                break;
            }
        }
    }
    if failed.is_none() && !stop.is_requested() {
        // It waits for room. The close tells of a failure how much is in no part, and how much of that in the journal.
        drop(recorder.flush());
    }
    let (stopped, unread, refused) = (stop.is_requested(), answers.unread, recorder.refused);
    let durable = recorder.close(stopped || failed.is_some())?;
    if let Some(error) = failed {
        return Err(error);
    }
    if stopped {
        // Whoever was to read it may have been stopped as well.
        answers.say(&durable);
    }
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
    /// The id of this launch.
    execution: String,
    /// A store has one process index and one tag.
    stores: BTreeMap<(i64, Option<String>), Open>,
    /// Counts the lines that went to a store.
    turn: u64,
    /// Records of stores that are closed already.
    closed: u64,
    /// It was said that the disk is full.
    waits: bool,
    /// Those of runs whose lines have none.
    nonces: BTreeMap<String, String>,
    refused: u64,
}

struct Open {
    store: Arc<ObjectStore>,
    /// When it was used last.
    turn: u64,
}

impl<'a> Recorder<'a> {
    fn new(context: &'a Context, stop: Stop) -> Result<Recorder<'a>, CliError> {
        let (stores, nonces) = (BTreeMap::new(), BTreeMap::new());
        let execution = random()?;
        Ok(Recorder {
            context,
            stop,
            execution,
            stores,
            turn: 0,
            closed: 0,
            waits: false,
            nonces,
            refused: 0,
        })
    }

    fn take(&mut self, line: &[u8]) -> Result<Asked, Refused> {
        let record = match parse(line).map_err(Refused::Line)? {
            Line::Flush(Flush { flush }) => return Ok(if flush { Asked::Flush } else { Asked::Nothing }),
            Line::Close(Close { close }) => return Ok(if close { Asked::Close } else { Asked::Nothing }),
            Line::Record(record) => record,
        };
        let Record { name, nonce, seq, process, parent, tag, fields } = record;
        let fields = fields
            .0
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
        loop {
            match store.value(&node, &fields) {
                Ok(()) => return Ok(Asked::Nothing),
                Err(RecordError::Full { records, .. }) if !self.stop.is_requested() => self.wait(records),
                Err(error) if error.is_final() || matches!(error, RecordError::Full { .. }) => {
                    return Err(Refused::Store(failure::store(error.into())));
                }
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    fn store(&mut self, process: i64, tag: Option<String>) -> Result<Arc<ObjectStore>, CliError> {
        self.turn += 1;
        let key = (process, tag);
        if let Some(open) = self.stores.get_mut(&key) {
            open.turn = self.turn;
            return Ok(Arc::clone(&open.store));
        }
        if self.stores.len() >= MAX_STORES {
            self.close_oldest()?;
        }
        let options = StoreOptions {
            process,
            tag: key.1.clone(),
            execution: Some(self.execution.clone()),
            when_full: WhenFull::Block(PATIENCE),
            ..StoreOptions::default()
        };
        let store = ObjectStore::open(&self.context.root_to_write().path, options).map_err(failure::store)?;
        let store = Arc::new(store);
        self.stores.insert(key, Open { store: Arc::clone(&store), turn: self.turn });
        Ok(store)
    }

    /// Closes the store that was used the longest ago.
    fn close_oldest(&mut self) -> Result<(), CliError> {
        let oldest = self.stores.iter().min_by_key(|(_, open)| open.turn);
        let Some((key, store)) = oldest.map(|(key, open)| (key.clone(), Arc::clone(&open.store))) else {
            return Ok(());
        };
        // It stays among the others until all that it has is durable.
        let records = self.flush_store(&store)?;
        store.close_uncompacted().map_err(failure::store)?;
        self.closed += records;
        self.stores.remove(&key);
        Ok(())
    }

    /// The nonce of the lines of a name that have none.
    fn nonce(&mut self, name: &str) -> Result<String, CliError> {
        if let Some(nonce) = self.nonces.get(name) {
            return Ok(nonce.clone());
        }
        let nonce = random()?;
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
    fn flush(&mut self) -> Result<Value, CliError> {
        let stores: Vec<_> = self.stores.values().map(|open| Arc::clone(&open.store)).collect();
        let mut durable = self.closed;
        for store in stores {
            durable += self.flush_store(&store)?;
        }
        Ok(self.answer(durable))
    }

    fn answer(&self, durable: u64) -> Value {
        Value::from(match self.refused {
            0 => json!({"durable": durable}),
            refused => json!({"durable": durable, "refused": refused}),
        })
    }

    fn flush_store(&mut self, store: &ObjectStore) -> Result<u64, CliError> {
        loop {
            match store.flush() {
                Ok(report) => {
                    self.waits = false;
                    return Ok(report.records);
                }
                Err(StoreError::Full { records, .. }) if !self.stop.is_requested() => self.wait(records),
                Err(error) => return Err(failure::store(error)),
            }
        }
    }

    /// Says that the disk is full, once for each time.
    fn wait(&mut self, records: u64) {
        if !std::mem::replace(&mut self.waits, true) {
            let records = plural(records, "record");
            self.context.note(&format!("the disk is full: {records} wait until there is room"));
        }
    }

    /// Closes all stores, and says how many records are durable. With `soon` the parts stay as they are, and all stores close at once: whoever asked for a stop may kill soon, and each
    /// waits a while for a disk that is full.
    fn close(self, soon: bool) -> Result<Value, CliError> {
        let stores: Vec<_> = self.stores.values().map(|open| Arc::clone(&open.store)).collect();
        let closed: Vec<Result<CloseReport, StoreError>> = match soon {
            true => std::thread::scope(|scope| {
                let closing: Vec<_> =
                    stores.iter().map(|store| scope.spawn(|| store.close_uncompacted())).collect();
                closing
                    .into_iter()
                    .zip(&stores)
                    .map(|(thread, store)| match thread.join() {
                        Ok(closed) => closed,
                        // It says at every close how it ended.
                        Err(_) => store.close_uncompacted(),
                    })
                    .collect()
            }),
            false => stores.iter().map(|store| store.close()).collect(),
        };
        let (mut failed, mut durable) = (None, self.closed);
        // All are closed before an error of one is told.
        for closed in closed {
            let closed = closed.map(|report| durable += report.records);
            failed = match (failed, closed.err()) {
                (
                    Some(StoreError::Failed { unwritten, journaled, source }),
                    Some(StoreError::Failed { unwritten: more, journaled: of_them, .. }),
                ) => Some(StoreError::Failed {
                    unwritten: unwritten + more,
                    journaled: journaled + of_them,
                    source,
                }),
                (first, error) => first.or(error),
            };
        }
        match failed {
            Some(error) => Err(failure::store(error)),
            None => Ok(self.answer(durable)),
        }
    }
}

/// An id that nobody else has.
fn random() -> Result<String, CliError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| CliError::of("io", error))?;
    Ok(Nonce::from_random(bytes).as_str().to_owned())
}

/// Reads a line, and says of one that is none what is wrong with it.
fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    let told = |error: serde_json::Error| match error.classify() {
        Category::Data => one_line(&error.to_string()),
        _ => format!("no JSON: {error}"),
    };
    if !line.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice::<IgnoredAny>(line).map_err(told)?;
        return Err("no JSON object: a record is {\"name\": .., \"seq\": .., \"fields\": {..}}".to_owned());
    }
    // What most lines are first.
    serde_json::from_slice(line).map(Line::Record).or_else(|error| {
        let keys = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line).map_err(told)?;
        if keys.contains_key("flush") {
            serde_json::from_slice(line).map(Line::Flush).map_err(told)
        } else if keys.contains_key("close") {
            serde_json::from_slice(line).map(Line::Close).map_err(told)
        } else {
            Err(told(error))
        }
    })
}

/// A value of a field; a float that JSON cannot say is an object of one key.
fn scalar(key: &str, value: &RawValue) -> Result<Scalar, String> {
    let wrong = |what: &dyn fmt::Display| format!("the field `{}`: {what}", one_line(key));
    let text = value.get();
    let number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if number && !text.contains(['.', 'e', 'E']) {
        let beyond = format!("{text} cannot be recorded: an integer has 64 bits, with its sign");
        return text.parse().map(Scalar::Int).map_err(|_| wrong(&beyond));
    }
    // What is derived reads an array as well.
    let float = text.starts_with('{').then(|| serde_json::from_str::<Float>(text).ok()).flatten();
    match float.as_ref().map(|Float { float }| float.as_str()) {
        Some("NaN") => return Ok(Scalar::Float(f64::NAN)),
        Some("Infinity") => return Ok(Scalar::Float(f64::INFINITY)),
        Some("-Infinity") => return Ok(Scalar::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    Scalar::try_from(&value).map_err(|error| wrong(&error))
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
        assert!(wrong("{\"flush\": true, \"flush\": true}").contains("duplicate field `flush`"));
        assert!(wrong("{\"name\": \"a\", \"seq\": 1, \"seq\": 2}").contains("duplicate field `seq`"));
        assert!(wrong("{\"name\": \"a\", \"seq\": 1, \"fields\": 3}").contains("an object of fields"));
        assert!(wrong("[\"a\", null, 1, 0, null, null, {}]").starts_with("no JSON object"));
        assert!(wrong("{\"name\": \"a\", \"seq\": 1, \"fields\": {\"b\": 1}").starts_with("no JSON: EOF"));
        assert!(matches!(parse(b"{\"flush\": true}"), Ok(Line::Flush(Flush { flush: true }))));
    }

    #[test]
    fn cli_2_numbers_keep_their_types() {
        let of = |text: &str| scalar("a", serde_json::from_str(text).unwrap());
        assert_eq!(of("3"), Ok(Scalar::Int(3)));
        assert_eq!(of("-0"), Ok(Scalar::Int(0)));
        assert_eq!(of("3.0"), Ok(Scalar::Float(3.0)));
        assert_eq!(of("-9223372036854775808"), Ok(Scalar::Int(i64::MIN)));
        assert_eq!(of("1e30"), Ok(Scalar::Float(1e30)));
        assert_eq!(of("\"3\""), Ok(Scalar::Text("3".to_owned())));
        assert_eq!(of("null"), Ok(Scalar::Null));
        assert!(matches!(of("{\"$float\": \"NaN\"}"), Ok(Scalar::Float(value)) if value.is_nan()));
        assert_eq!(of("{\"$float\": \"-Infinity\"}"), Ok(Scalar::Float(f64::NEG_INFINITY)));
        for text in [
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "1e999",
            "[1]",
            "[\"NaN\"]",
            "{\"$float\": \"x\"}",
            "{\"$float\": \"NaN\", \"b\": 1}",
            "{\"$float\": \"NaN\", \"$float\": \"NaN\"}",
        ] {
            assert!(of(text).unwrap_err().contains("the field `a`"), "{text}");
        }
    }
}
