//! Bytes that nobody wrote, for every reader of bytes: each takes what it is given or says what is wrong with it, and never
//! panics, hangs or reserves what is not there.
//!
//! What is written for real is changed at random: bytes flipped, cut out, doubled, moved, replaced by what such formats
//! break at. Each target runs for a second; `WAYCAIRN_FUZZ_SECONDS=300` has it run for five minutes. A failure names the seed
//! and the round, and `WAYCAIRN_FUZZ_SEED` begins there.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder, arrow_writer::ArrowWriterOptions},
    file::{metadata::KeyValue, properties::WriterProperties},
};
use serde_json::json;
use waycairn_dag::{Address, Node};
use waycairn_store::{
    Expr, Freshness, JournalPolicy, NdArray, ObjectReader, ObjectStore, SavedQuery, Scalar, StoreOptions,
    fsck, recover,
};

/// A source of choices that a number repeats.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Changes some bytes of what was written.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        const BREAKING: [&[u8]; 8] = [
            b"\xff\xff\xff\xff",
            b"\0\0\0\0\0\0\0\0",
            b"\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"\"",
            b"'",
            b"((((",
            b"\xdd",
            b"PAR1",
        ];
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let span = at..(at + 1 + self.below(16)).min(bytes.len()).max(at);
            match self.below(7) {
                0 if !bytes.is_empty() => {
                    let at = at.min(bytes.len() - 1);
                    bytes[at] ^= 1 << self.below(8);
                }
                1 => drop(bytes.drain(span)),
                2 => {
                    let again = bytes[span].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => bytes.truncate(at),
                4 => drop(bytes.splice(at..at, BREAKING[self.below(BREAKING.len())].iter().copied())),
                5 => drop(bytes.splice(span, BREAKING[self.below(BREAKING.len())].iter().copied())),
                _ => bytes.insert(at, self.below(256) as u8),
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Gives a target what becomes of samples, for as long as was asked.
fn fuzz(samples: &[Vec<u8>], mut target: impl FnMut(&[u8])) {
    let time = Duration::from_secs(number("WAYCAIRN_FUZZ_SECONDS").unwrap_or(1));
    let first = number("WAYCAIRN_FUZZ_SEED").unwrap_or(1);
    let begin = Instant::now();
    for seed in first.. {
        let mut choices = Choices(seed);
        let mut bytes = samples[choices.below(samples.len())].clone();
        choices.change(&mut bytes);
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
        assert!(outcome.is_ok(), "WAYCAIRN_FUZZ_SEED={seed}: {:?}", String::from_utf8_lossy(&bytes));
        if begin.elapsed() >= time {
            return;
        }
    }
}

fn texts(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.as_bytes().to_vec()).collect()
}

fn node(seq: u64) -> Node {
    Node::new("run", "0123456789abcdef", seq).expect("a node")
}

#[test]
fn addresses_of_any_bytes() {
    let samples = [node(0), node(u64::MAX >> 1), Node::new("a:b \u{1f980}", "949e88", 7).expect("a node")];
    let samples: Vec<Vec<u8>> =
        samples.iter().map(|node| node.address().as_str().as_bytes().to_vec()).collect();
    fuzz(&samples, |bytes| {
        if let Ok(address) = String::from_utf8_lossy(bytes).parse::<Address>() {
            let node = address.decode();
            assert_eq!(node.address().decode(), node, "what is one stays one");
        }
    });
}

#[test]
fn node_specifications_of_any_bytes() {
    let parent = node(4).next().expect("a successor");
    let samples: Vec<Vec<u8>> =
        [node(3), parent].iter().map(|node| serde_json::to_vec(node).expect("JSON")).collect();
    fuzz(&samples, |bytes| {
        if let Ok(node) = serde_json::from_slice::<Node>(bytes) {
            assert_eq!(node.address().decode(), node);
        }
    });
}

#[test]
fn expressions_and_saved_questions_of_any_bytes() {
    let samples = texts(&[
        "val/loss < 2.0 and (has eval/accuracy or seq >= 100) and not name = 'x'",
        "\"a \"\"b\"\"\" in (1, 'two', true, -3.5e7) or missing c and written >= '2026-11-30T12:00:00Z'",
        "project = 'p.*.r' and tag = 'x' and checkpoint and artifact = 's' and job = 'gpt@1' and finished",
        "{\"where\":\"name = 'tiny'\",\"sort\":[[\"val/loss\",\"ascending\"]],\"limit\":3}",
    ]);
    fuzz(&samples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(expr) = Expr::parse(&text) {
            let shown = expr.to_string();
            let again = Expr::parse(&shown);
            assert!(again.is_ok_and(|again| again.to_string() == shown), "{shown}");
        }
        if let Ok(saved) = serde_json::from_slice::<SavedQuery>(bytes) {
            let text = serde_json::to_string(&saved).expect("JSON");
            assert_eq!(serde_json::from_str::<SavedQuery>(&text).expect("its own text"), saved, "{text}");
        }
    });
}

#[test]
fn artifacts_of_any_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = ObjectStore::open(folder.path(), StoreOptions::default()).expect("a root");
    let array = NdArray::from_f32(vec![2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).expect("an array");
    let payload = (json!({"a": [1, 2.5, "x", null], "deep": {"b": [[[]]]}}), array);
    store.artifact(&node(0), "a", &[], &payload).expect("an artifact");
    store.close().expect("closed");
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let path = reader.artifact(&node(0), "a").expect("an artifact").path().to_owned();
    let sample = std::fs::read(&path).expect("a payload");
    let deep = vec![0x91; 100_000];
    fuzz(&[sample, deep], |bytes| {
        std::fs::write(&path, bytes).expect("a payload");
        if let Ok(artifact) = reader.artifact(&node(0), "a") {
            drop(artifact.value());
            drop(artifact.decode::<(serde_json::Value, NdArray)>());
            drop(artifact.decode::<NdArray>());
        }
    });
}

/// A root whose one writer died, with a part and a segment; and their paths.
fn of_a_dead_writer(root: &Path) -> (PathBuf, PathBuf) {
    let options = StoreOptions { journal: JournalPolicy::EachRecord, ..StoreOptions::default() };
    let store = ObjectStore::open(root, options).expect("a root");
    let record = |seq: u64| {
        let parent = (seq > 0).then(|| node(seq - 1).address());
        let fields = [("loss", Scalar::Float(seq as f64)), ("phase", "warm".into()), ("n", Scalar::Int(1))];
        store.value(&node(seq).with_parent(parent), &fields).expect("a record");
    };
    (0..50).for_each(record);
    store.flush().expect("a flush");
    (50..60).for_each(record);
    let live = store.reader().with_freshness(Freshness::Live);
    while live.query().count().expect("an answer").value < 60 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its files as they are now, in a root of their own, where nobody owns them.
    let copy = root.with_file_name("copy");
    let values = copy.join("objects/values");
    std::fs::create_dir_all(&values).expect("a folder");
    std::fs::copy(root.join("FORMAT"), copy.join("FORMAT")).expect("a copy");
    let (mut part, mut segment) = (None, None);
    for entry in std::fs::read_dir(root.join("objects/values")).expect("the values") {
        let from = entry.expect("an entry").path();
        let name = from.file_name().expect("a name").to_string_lossy().into_owned();
        let to = values.join(&name);
        let place = match () {
            () if name.starts_with("part-") => &mut part,
            () if name.starts_with(".journal-") => &mut segment,
            () => continue,
        };
        std::fs::copy(from, &to).expect("a copy");
        *place = Some(to);
    }
    store.close().expect("closed");
    (part.expect("a part"), segment.expect("a segment"))
}

#[test]
fn journals_of_any_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, segment) = of_a_dead_writer(&folder.path().join("root"));
    let root = folder.path().join("copy");
    let sample = std::fs::read(&segment).expect("a segment");
    let values = segment.parent().expect("a folder").to_owned();
    let reader = ObjectReader::open(&root).expect("a reader").with_freshness(Freshness::Live);
    fuzz(&[sample], |bytes| {
        std::fs::write(&segment, bytes).expect("a segment");
        let seen = reader.query().count().expect("what is whole is seen").value;
        assert!((50..=60).contains(&seen), "{seen}");
        // One that begins otherwise is somebody else's and stays; of others all that was seen is published.
        let recovered = recover(&root);
        let published =
            ObjectReader::open(&root).expect("a reader").query().count().expect("an answer").value;
        if recovered.is_ok() {
            assert_eq!(published, seen);
        }
        for entry in std::fs::read_dir(&values).expect("the values") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let rows = |path: &Path| path.metadata().expect("a file").len();
            if name.starts_with(".damaged")
                || (name.starts_with("part-") && rows(&path) < rows(&largest(&values)))
            {
                std::fs::remove_file(&path).expect("removed");
            }
        }
    });
}

/// The largest part: that of the fifty records, which all others are smaller than.
fn largest(values: &Path) -> PathBuf {
    let parts = std::fs::read_dir(values).expect("the values").map(|entry| entry.expect("an entry").path());
    let parts = parts.filter(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    parts.max_by_key(|path| path.metadata().map_or(0, |file| file.len())).expect("a part")
}

/// A part with other texts in the key-values of its footer, of which all else is as it was.
fn with_footer(part: &Path, pairs: &[KeyValue]) -> Vec<u8> {
    let file = std::fs::File::open(part).expect("a part");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a footer");
    let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs.to_vec())).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer =
        ArrowWriter::try_new_with_options(Vec::new(), reader.schema().clone(), options).expect("a writer");
    for batch in reader.build().expect("a reader") {
        writer.write(&batch.expect("rows")).expect("rows");
    }
    writer.into_inner().expect("a part")
}

#[test]
fn footers_of_any_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (part, segment) = of_a_dead_writer(&folder.path().join("root"));
    std::fs::remove_file(segment).expect("removed");
    let root = folder.path().join("copy");
    let file = std::fs::File::open(&part).expect("a part");
    let footer = ParquetRecordBatchReaderBuilder::try_new(file).expect("a footer");
    let pairs = footer.metadata().file_metadata().key_value_metadata().expect("facts").clone();
    let known = |key: &str, value: &str| KeyValue::new(format!("waycairn.{key}"), value.to_owned());
    let mut pairs: Vec<KeyValue> = pairs.into_iter().filter(|pair| pair.key != "ARROW:schema").collect();
    pairs.push(known("sparse", r#"{"a":[0],"b":[]}"#));
    pairs.push(known("replaces", r#"["part-0.parquet"]"#));
    pairs.push(known("rest_of", "part-0.parquet"));
    let texts: Vec<Vec<u8>> =
        pairs.iter().map(|pair| pair.value.clone().unwrap_or_default().into_bytes()).collect();
    let reader = ObjectReader::open(&root).expect("a reader");
    let original = folder.path().join("original");
    std::fs::copy(&part, &original).expect("a copy");
    fuzz(&texts, |bytes| {
        // One of them is changed: that which it was taken from, or another one.
        let mut changed = pairs.clone();
        changed[bytes.len() % pairs.len()].value = Some(String::from_utf8_lossy(bytes).into_owned());
        std::fs::write(&part, with_footer(&original, &changed)).expect("a part");
        drop(reader.query().select_all());
        drop(reader.query().has("a").all());
        drop(reader.node(&node(7)));
        drop(reader.runs());
        drop(fsck(&root));
        drop(waycairn_store::plan_compaction(&root));
        assert!(reader.skipping_damaged().query().select_all().is_ok(), "what is damaged can be left out");
    });
}

#[test]
fn parts_of_any_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (part, segment) = of_a_dead_writer(&folder.path().join("root"));
    std::fs::remove_file(segment).expect("removed");
    let root = folder.path().join("copy");
    let sample = std::fs::read(&part).expect("a part");
    // Most of the bytes that decide are at the end.
    let end = sample.len();
    let reader = ObjectReader::open(&root).expect("a reader");
    fuzz(std::slice::from_ref(&sample), |bytes| {
        for bytes in [bytes.to_vec(), [&sample[..end / 2], &bytes[bytes.len().min(end / 2)..]].concat()] {
            std::fs::write(&part, &bytes).expect("a part");
            drop(reader.query().select_all());
            drop(reader.node(&node(7)));
            drop(reader.runs());
            drop(fsck(&root));
            assert!(
                reader.skipping_damaged().query().select_all().is_ok(),
                "what is damaged can be left out"
            );
        }
    });
}
