//! The frames of a journal segment: accepted records as bytes, each frame whole or found not to be.
//!
//! ```text
//!  segment = magic, frame(launch), frame(records)*
//!  frame   = length of the body: u32 LE | CRC-32 of the body: u32 LE | body: MessagePack
//! ```
//!
//! A frame needs no other one but the first, so what is lost with one is its own records. The bytes: `docs/format.md`.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::ser::{SerializeSeq as _, SerializeTuple as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use waycairn_dag::{Address, Node};

use crate::batch::Launch;
use crate::field::Scalar;
use crate::queue::{MAX_BATCH_BYTES, MAX_BATCH_ROWS};
use crate::row::{Cell, Marks, Row, Rows, check_fields, to_u32};

/// What a segment begins with: the name of the format and its version.
pub(crate) const MAGIC: [u8; 8] = *b"WCJRNL\x00\x01";

/// Length and checksum before each body.
const HEAD_BYTES: usize = 8;

/// What a segment tells.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// What all its records have in common; `None` when not even that is there.
    pub(crate) launch: Option<Launch>,
    /// The records of its whole frames, in their order, in buffers that are bounded as batches are.
    pub(crate) rows: Vec<Rows>,
    /// How far its frames reach. What stands behind is a frame that was not written whole.
    pub(crate) whole: usize,
    /// Frames that have their length and whose bytes are not those that were written.
    pub(crate) damaged: u64,
    /// It begins as no segment of this format does.
    pub(crate) foreign: bool,
}

impl Segment {
    /// The number of records.
    pub(crate) fn records(&self) -> u64 {
        self.rows.iter().map(|rows| rows.len() as u64).sum()
    }
}

/// Appends a frame to `out`; `body` writes what is in it.
fn frame<E>(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    if let Err(error) = body(out) {
        out.truncate(start);
        return Err(error);
    }
    let (head, body) = out.split_at_mut(start + HEAD_BYTES);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    head[start..start + 4].copy_from_slice(&length.to_le_bytes());
    head[start + 4..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    Ok(())
}

/// The beginning of a segment.
pub(crate) fn write_launch(launch: &Launch) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let mut out = MAGIC.to_vec();
    let Launch { writer, process, execution, tag, job } = launch;
    frame(&mut out, |out| rmp_serde::encode::write(out, &(writer, process, execution, tag, job)))?;
    Ok(out)
}

/// A frame of records in the making. Records are added a few at a time, each time for as long as the buffer that they are
/// in may be looked at, and what they share is written when it is finished.
///
/// All records of a frame are of one buffer.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    runs: Vec<Node>,
    by_run: HashMap<(Arc<str>, Arc<str>), u32>,
    /// The run of the record before.
    last: u32,
    shapes: Vec<Vec<String>>,
    by_shape: HashMap<u32, u32>,
    records: Vec<u8>,
    count: u32,
}

impl FrameWriter {
    /// The bytes of the records so far.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Adds some of the records of a buffer.
    ///
    /// # Errors
    /// What the encoder says; none of these records was added then.
    pub(crate) fn add(&mut self, rows: &Rows, range: Range<usize>) -> Result<(), rmp_serde::encode::Error> {
        let start = self.records.len();
        let some = rows.rows().get(range).unwrap_or_default();
        for row in some {
            let place = (self.run(&row.node), self.shape(rows, row.shape));
            if let Err(error) = rmp_serde::encode::write(&mut self.records, &Record { rows, row, place }) {
                self.records.truncate(start);
                return Err(error);
            }
        }
        self.count += to_u32(some.len());
        Ok(())
    }

    fn run(&mut self, node: &Node) -> u32 {
        if !self.runs.get(self.last as usize).is_some_and(|run| run.same_run(node)) {
            let key = (Arc::clone(node.name_arc()), Arc::clone(node.nonce_arc()));
            self.last = *self.by_run.entry(key).or_insert_with(|| {
                self.runs.push(node.clone());
                to_u32(self.runs.len() - 1)
            });
        }
        self.last
    }

    fn shape(&mut self, rows: &Rows, shape: u32) -> u32 {
        *self.by_shape.entry(shape).or_insert_with(|| {
            let keys = rows.shapes().get(shape as usize).into_iter().flat_map(|shape| shape.keys());
            self.shapes.push(keys.map(str::to_owned).collect());
            to_u32(self.shapes.len() - 1)
        })
    }

    /// Appends the frame to `out`, if it has a record, and begins anew.
    ///
    /// # Errors
    /// What the encoder says.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error> {
        let FrameWriter { runs, shapes, records, count, .. } = std::mem::take(self);
        if count == 0 {
            return Ok(());
        }
        let runs: Vec<(&str, &str)> = runs.iter().map(|node| (node.name(), node.nonce())).collect();
        frame(out, |out| {
            // An array of three: runs, shapes, and the array of records, whose length takes four bytes.
            out.push(0x93);
            rmp_serde::encode::write(out, &runs)?;
            rmp_serde::encode::write(out, &shapes)?;
            out.push(0xdd);
            #[expect(clippy::big_endian_bytes, reason = "as MessagePack has it")]
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&records);
            Ok(())
        })
    }
}

struct Record<'a> {
    rows: &'a Rows,
    row: &'a Row,
    place: (u32, u32),
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { node, write, marks, .. } = self.row;
        let mut record = serializer.serialize_tuple(7)?;
        record.serialize_element(&self.place.0)?;
        record.serialize_element(&node.seq())?;
        record.serialize_element(write)?;
        record.serialize_element(&node.parent().map(Address::as_str))?;
        let marks = marks.as_deref().map(|marks| {
            let Marks { blob, checkpoint, finished, record, artifact } = marks;
            (blob, checkpoint, finished, record, artifact.as_deref())
        });
        record.serialize_element(&marks)?;
        record.serialize_element(&self.place.1)?;
        record.serialize_element(&Cells { rows: self.rows, cells: self.rows.cells(self.row) })?;
        record.end()
    }
}

struct Cells<'a> {
    rows: &'a Rows,
    cells: &'a [Cell],
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cells = serializer.serialize_seq(Some(self.cells.len()))?;
        for cell in self.cells {
            match *cell {
                Cell::Null => cells.serialize_element(&())?,
                Cell::Bool(value) => cells.serialize_element(&value)?,
                Cell::Int(value) => cells.serialize_element(&value)?,
                Cell::Float(value) => cells.serialize_element(&value)?,
                Cell::Text { start, bytes } => cells.serialize_element(self.rows.text(start, bytes))?,
            }
        }
        cells.end()
    }
}

/// Reads a segment, whatever its bytes are.
pub(crate) fn read(bytes: &[u8]) -> Segment {
    // Its beginning may be all that there is.
    let foreign = !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes);
    let mut segment = Segment { foreign, ..Segment::default() };
    let mut at = MAGIC.len();
    let Some(body) = body(bytes, at).filter(|_| !segment.foreign) else { return segment };
    at = body.end;
    segment.launch = body.checked.and_then(|body| read_launch(body).ok());
    if segment.launch.is_none() {
        // Without it nobody can say whose records follow.
        segment.damaged = 1;
        return segment;
    }
    segment.whole = at;
    // A frame that was not written whole ends behind the end. What has its length and other bytes is damaged.
    while let Some(body) = self::body(bytes, at) {
        at = body.end;
        match body.checked {
            Some(body) if read_records(body, &mut segment.rows).is_ok() => {
                segment.whole = at;
            }
            _ => segment.damaged += 1,
        }
    }
    segment
}

struct Body<'a> {
    /// `None` when the checksum is another one.
    checked: Option<&'a [u8]>,
    end: usize,
}

/// The frame at `at`; `None` when there is none that ends within the bytes.
fn body(bytes: &[u8], at: usize) -> Option<Body<'_>> {
    let head = bytes.get(at..)?.first_chunk::<HEAD_BYTES>()?;
    let [length, sum] = [0, 4].map(|from| {
        let mut word = [0; 4];
        word.copy_from_slice(&head[from..from + 4]);
        u32::from_le_bytes(word)
    });
    let start = at + HEAD_BYTES;
    let end = start.checked_add(length as usize)?;
    let body = bytes.get(start..end)?;
    // Zeros, as a power loss leaves them, are no frame.
    (length > 0).then(|| Body { checked: (crc32fast::hash(body) == sum).then_some(body), end })
}

/// As the bytes say; the parts of a launch in their order.
type LaunchBody = (String, i64, Option<String>, Option<String>, Option<String>);

fn read_launch(body: &[u8]) -> Result<Launch, rmp_serde::decode::Error> {
    let (writer, process, execution, tag, job): LaunchBody = rmp_serde::from_slice(body)?;
    Ok(Launch { writer, process, execution, tag, job })
}

type MarksBody = (bool, Option<bool>, Option<bool>, bool, Option<Box<str>>);

#[derive(Deserialize)]
struct RecordBody {
    run: u32,
    seq: u64,
    write: i64,
    parent: Option<Address>,
    marks: Option<MarksBody>,
    shape: u32,
    cells: Vec<Value>,
}

type FrameBody = (Vec<(String, String)>, Vec<Vec<String>>, Vec<RecordBody>);

/// Adds the records of a frame to the buffers: all of them or, when something is wrong with one, none.
fn read_records(body: &[u8], buffers: &mut Vec<Rows>) -> Result<(), Malformed> {
    let (runs, shapes, records): FrameBody = rmp_serde::from_slice(body).map_err(|_| Malformed)?;
    let runs: Vec<Node> = runs
        .iter()
        .map(|(name, nonce)| Node::new(name, nonce, 0))
        .collect::<Result<_, _>>()
        .map_err(|_| Malformed)?;
    let mut accepted = Vec::with_capacity(records.len());
    for record in records {
        let run = runs.get(record.run as usize).ok_or(Malformed)?;
        let node = run.at(record.seq).map_err(|_| Malformed)?.with_parent(record.parent);
        let keys = shapes.get(record.shape as usize).ok_or(Malformed)?;
        if keys.len() != record.cells.len() {
            return Err(Malformed);
        }
        let cells = record.cells.into_iter().map(|Value(value)| value);
        let fields: Vec<(&str, Scalar)> = keys.iter().map(String::as_str).zip(cells).collect();
        check_fields(&fields).map_err(|_| Malformed)?;
        let marks = record.marks.map(|(blob, checkpoint, finished, record, artifact)| {
            Box::new(Marks { blob, checkpoint, finished, record, artifact })
        });
        accepted.push((node, record.write, fields, marks));
    }
    for (node, write, fields, marks) in accepted {
        if buffers.last().is_none_or(|last| last.len() == MAX_BATCH_ROWS || last.bytes() >= MAX_BATCH_BYTES) {
            buffers.push(Rows::default());
        }
        if let Some(last) = buffers.last_mut() {
            last.push(&node, write, &fields, marks).map_err(|_| Malformed)?;
        }
    }
    Ok(())
}

/// The bytes are a frame, but not one of records.
struct Malformed;

/// A cell as MessagePack has it.
struct Value(Scalar);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AsScalar).map(Value)
    }
}

struct AsScalar;

impl Visitor<'_> for AsScalar {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("nil, a bool, a 64-bit integer, a float or a string")
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
        Scalar::try_from_u64(value).map_err(E::custom)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(value))
    }
}

#[cfg(test)]
mod tests;
