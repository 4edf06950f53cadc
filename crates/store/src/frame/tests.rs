#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn launch() -> Launch {
    Launch {
        writer: "w-1".into(),
        process: 2,
        execution: Some("e".into()),
        tag: None,
        job: Some("gpt@1".into()),
    }
}

fn node(run: u8, seq: u64) -> Node {
    let node = Node::new(&format!("run-{run}"), "0123456789abcdef", seq).unwrap();
    if seq % 3 == 1 { node.at(seq - 1).unwrap().next().unwrap() } else { node }
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(Scalar::Int),
        any::<f64>().prop_map(Scalar::Float),
        ".{0,12}".prop_map(Scalar::Text),
    ]
}

/// Run, position, fields, and whether there are marks.
type Given = (u8, u64, Vec<(String, Scalar)>, bool);

fn records() -> impl Strategy<Value = Vec<Given>> {
    let fields = prop::collection::btree_map("[a-c/]{1,3}", scalar(), 0..4);
    let fields = fields.prop_map(|fields| fields.into_iter().collect::<Vec<_>>());
    prop::collection::vec((0_u8..3, 0_u64..1 << 40, fields, any::<bool>()), 0..40)
}

type Plain = (String, u64, i64, Option<String>, Option<Marks>, Vec<(String, String)>);

/// Everything that a buffer holds, so that NaN equals itself and 0 is not -0.
fn plain(rows: &Rows) -> Vec<Plain> {
    let plain = |row: &Row| {
        let keys = rows.shapes()[row.shape as usize].keys();
        let fields = keys.zip(rows.cells(row)).map(|(key, cell)| {
            let value = match cell {
                Cell::Float(value) => format!("{:x}", value.to_bits()),
                Cell::Text { start, bytes } => format!("{:?}", rows.text(*start, *bytes)),
                other => format!("{other:?}"),
            };
            (key.to_owned(), value)
        });
        let parent = row.node.parent().map(ToString::to_string);
        let marks = row.marks.as_deref().cloned();
        (row.node.to_string(), row.node.seq(), row.write, parent, marks, fields.collect())
    };
    rows.rows().iter().map(plain).collect()
}

fn rows_of(records: &[Given]) -> Rows {
    let mut rows = Rows::default();
    for (write, (run, seq, fields, marked)) in (-3_i64..).zip(records) {
        let fields: Vec<(&str, Scalar)> =
            fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let marks = marked.then(|| {
            Box::new(Marks {
                blob: true,
                checkpoint: Some(false),
                artifact: Some("a/b".into()),
                ..Marks::default()
            })
        });
        rows.push(&node(*run, *seq), write, &fields, marks).unwrap();
    }
    rows
}

/// A segment with frames of `each` records; and where each frame ends.
fn segment(rows: &Rows, each: usize) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = write_launch(&launch()).unwrap();
    let mut ends = vec![bytes.len()];
    for start in (0..rows.len()).step_by(each) {
        let end = (start + each).min(rows.len());
        let mut frame = FrameWriter::default();
        // In two steps, as it comes when callers want the buffer meanwhile.
        frame.add(rows, start..start + (end - start) / 2).unwrap();
        frame.add(rows, start + (end - start) / 2..end).unwrap();
        frame.finish(&mut bytes).unwrap();
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn all(segment: &Segment) -> Vec<Plain> {
    segment.rows.iter().flat_map(plain).collect()
}

proptest! {
    #[test]
    fn store_9_records_come_back_from_frames_as_they_were(records in records(), each in 1_usize..7) {
        let rows = rows_of(&records);
        let (bytes, _) = segment(&rows, each);
        let read = read(&bytes);
        prop_assert_eq!(format!("{:?}", read.launch), format!("{:?}", Some(launch())));
        prop_assert_eq!((read.whole, read.damaged, read.foreign), (bytes.len(), 0, false));
        prop_assert_eq!(all(&read), plain(&rows));
    }

    #[test]
    fn store_9_a_segment_that_was_cut_has_the_records_of_its_whole_frames(
        records in records(), each in 1_usize..7, cut in any::<prop::sample::Index>(), zeros in 0_usize..20,
    ) {
        let rows = rows_of(&records);
        let (written, ends) = segment(&rows, each);
        let mut bytes = written[..cut.index(written.len() + 1)].to_vec();
        // What a power loss leaves behind the end; a frame that ends in zeros may be whole by them.
        bytes.extend(std::iter::repeat_n(0, zeros));
        let whole = |end: usize| bytes.get(..end) == written.get(..end);
        let frames = ends.iter().filter(|end| whole(**end)).count();
        let read = read(&bytes);
        prop_assert_eq!(read.whole, ends.iter().rev().find(|end| whole(**end)).copied().unwrap_or(0));
        let kept = (frames.saturating_sub(1) * each).min(rows.len());
        prop_assert_eq!(all(&read), plain(&rows)[..kept].to_vec());
    }

    #[test]
    fn store_9_a_changed_byte_costs_its_frame_and_no_other(
        records in records(), each in 1_usize..7, at in any::<prop::sample::Index>(), flip in 1_u8..=255,
    ) {
        let rows = rows_of(&records);
        let (mut bytes, ends) = segment(&rows, each);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let read = read(&bytes);
        let before = ends.iter().filter(|end| **end <= at).count();
        let all = all(&read);
        let expected = plain(&rows);
        // Nothing is invented, and what stands before it is there.
        prop_assert!(all.iter().all(|row| expected.contains(row)));
        let kept = (before.saturating_sub(1) * each).min(rows.len());
        prop_assert_eq!(&all[..kept.min(all.len())], &expected[..kept]);
        // A changed length may hide what follows; a changed body does not.
        let start = ends.iter().rev().find(|end| **end <= at).copied();
        if let Some(start) = start && at >= start + 8 && before < ends.len() {
            prop_assert!(all.len() >= rows.len().saturating_sub(each), "{} of {}", all.len(), rows.len());
            prop_assert_eq!(read.damaged, 1);
        }
    }

    #[test]
    fn store_9_no_bytes_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), after in any::<bool>()) {
        let mut all = if after { write_launch(&launch()).unwrap() } else { Vec::new() };
        all.extend(bytes);
        let read = read(&all);
        prop_assert!(read.whole <= all.len());
    }
}

#[test]
fn store_9_a_length_that_is_not_there_reserves_nothing() {
    let mut bytes = write_launch(&launch()).unwrap();
    let whole = bytes.len();
    // A frame whose arrays claim four billion entries: its checksum is right.
    for body in [&[0x93, 0xdd, 0xff, 0xff, 0xff, 0xff][..], &[0x93, 0x90, 0x90, 0xdd, 0xff, 0xff, 0xff, 0xff]]
    {
        bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        bytes.extend(crc32fast::hash(body).to_le_bytes());
        bytes.extend(body);
    }
    let read = read(&bytes);
    assert_eq!((read.whole, read.records()), (whole, 0));
}

#[test]
fn the_bytes_of_a_segment_are_those_of_the_format() {
    let mut rows = Rows::default();
    let fields: [(&str, Scalar); 2] = [("loss", 2.5.into()), ("phase", "warm".into())];
    rows.push(&Node::new("r", "949e88", 1).unwrap(), 7, &fields, None).unwrap();
    let launch = Launch { writer: "w".into(), process: 0, execution: None, tag: None, job: None };
    let mut bytes = write_launch(&launch).unwrap();
    let mut frame = FrameWriter::default();
    frame.add(&rows, 0..1).unwrap();
    frame.finish(&mut bytes).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("segment.hex").trim_end());
    let page: String = include_str!("../../../../docs/format.md").split_whitespace().collect();
    assert!(page.contains(&hex), "the page about the format shows these bytes");
    // And they are read as what they say.
    let read = read(&bytes);
    assert_eq!(format!("{:?}", read.launch), format!("{:?}", Some(launch)));
    assert_eq!((all(&read), read.whole, read.damaged), (plain(&rows), bytes.len(), 0));
}
