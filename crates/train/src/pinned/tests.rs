//! Values that are written into roots, or that decide what a run computes, as they were in the first version.
//!
//! A change of any of them breaks something for everyone who has a root: the same command would begin a new run, a
//! second launch would not find the lock, a resumed run would see other batches or draw other masks, and digests that
//! are recorded would no longer compare. Where that is meant, the version in the digested text changes with it
//! (`waycairn order 1`), and `docs/format.md` says so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use burn::tensor::{Device, TensorData};
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::checkpoint::{Checkpoint, Depth};
use crate::data::{Batch, Fingerprint, TextFingerprint, TrainPlan, Vocabulary, digest_tensors};
use crate::experiment::{Experiment as _, Initial};
use crate::generator::{self, Stream};
use crate::identity::{NO_BASE, RunKey};
use crate::settings::{Schema, Settings};
use crate::weights::{NamedTensor, digest, weights};
use crate::{Gpt, run};

fn tensor(name: &str, values: &[f32], shape: &[usize]) -> NamedTensor {
    NamedTensor { name: name.to_owned(), data: TensorData::new(values.to_vec(), shape.to_vec()) }
}

/// Recorded as `model/sha256`: a checkpoint that was saved before a crash is told from another one by it.
#[test]
fn the_digest_of_weights_is_pinned() {
    let one = tensor("b.weight", &[1.0, -2.5, 0.0, 3.25, 1e-7, -0.0], &[2, 3]);
    let other = tensor("a.gamma", &[0.5, f32::MAX], &[2]);
    let text = digest(&[one.clone(), other.clone()]).unwrap().to_string();
    assert_eq!(text, "041508fc39ebd6f75255de81b0f7ddfaef3b0e95c51a97ec24a2630f130e0821");
    // The order of the names counts, not that of the list.
    assert_eq!(digest(&[other, one]).unwrap().to_string(), text);
}

/// Recorded as `data/batch_sha256`, and compared with by the replay of a past batch.
#[test]
fn the_digest_of_a_batch_is_pinned() {
    let batch = Batch {
        position: 7,
        rows: 2,
        context: 3,
        tokens: vec![1, 2, 3, 40_000, 5, 0],
        targets: vec![2, 3, 4, 5, 6, 0],
        weights: None,
    };
    assert_eq!(
        batch.sha256().to_string(),
        "f188d08c6bf9c031ddbeb2d042cc19876e534b06c1fb472cf39e7a66b67e7da2"
    );
    let short = Batch { weights: Some(vec![1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), ..batch };
    assert_eq!(
        short.sha256().to_string(),
        "7799ed820a1012b98169ee18bce8cd6188aa08be7787f8ab06ca911b0d16dfdd"
    );
}

/// The settings of a run decide, with its name and base, whether a command is the same again.
#[test]
fn the_digest_of_the_settings_of_each_preset_is_pinned() {
    let digests = Gpt.presets().into_iter().map(|preset| {
        let mut settings = Settings::defaults(Schema::new(Gpt.keys())).with_preset(&preset).unwrap();
        settings.set("data.source", "input.txt").unwrap();
        (preset.name, settings.digest().unwrap().to_string())
    });
    let digests: Vec<(&str, String)> = digests.collect();
    let pinned = [
        ("tiny", "6b616c81eb86c43d1e9403d0f9a912150e3d17f2844a684483e9bdf733c741af"),
        ("nanogpt-cpu", "450efb06c0deeb7f3ed575c6e22cd0e2b34e28651db750fdfa12d3bf29c853b2"),
        ("baby-gpt", "dcecbd3411a6c0e9466de7ccd879e31ce17bf1b6138fc98fdcbe43f4e9e63e61"),
    ];
    assert_eq!(digests, pinned.map(|(name, digest)| (name, digest.to_owned())));
}

/// A program of another version that trains the same run must meet the same lock.
#[test]
fn the_name_of_a_lock_file_is_pinned() {
    let key = |base: &str| RunKey {
        name: "shakespeare".to_owned(),
        base: base.to_owned(),
        settings_sha256: Digest::of(b"settings"),
        model_key: None,
    };
    assert_eq!(
        run::lock_name(&key(NO_BASE)),
        "run-9c0c118428efa187113e7bf24bff62661f178eb5f16e5309b7ab9d433b40ed0d.lock"
    );
    assert_eq!(
        run::lock_name(&key("c2hha2VzcGVhcmU6MGMxMWYyOjk5OQ")),
        "run-0f6d17ce06fca4d0cb5dd2552fabba5106f1593012d7b0c01a44877d4701fbbc.lock"
    );
}

fn fingerprint(order: &str) -> TextFingerprint {
    TextFingerprint {
        bytes: 101,
        content_sha256: Digest::of(b"content"),
        tokenizer_sha256: Digest::of(b"tokenizer"),
        tokens: 101,
        train_tokens: 91,
        seed: 1337,
        order: order.to_owned(),
        context: 8,
        batch_size: 4,
        accumulate: 2,
    }
}

/// The first windows of positions 0, 1 and 2,000,000,000, as their starts.
fn starts(order: &str) -> Vec<u64> {
    let plan = TrainPlan::new(&fingerprint(order));
    [0, 1, 2_000_000_000]
        .into_iter()
        .flat_map(|position| plan.windows(position))
        .map(|window| window.start)
        .collect()
}

fn check_order(order: &str, key: &str, expected: &[u64]) {
    assert_eq!(fingerprint(order).order_key().to_string(), key);
    assert_eq!(starts(order), expected);
}

/// A resumed run goes on with the stream that it began.
#[test]
fn the_shuffled_order_is_pinned() {
    check_order(
        "shuffled",
        "f612d05b63dc7bdb44ca70222c3f0b02b9f23be346be16e53b50ab6f827cbcbb",
        &[64, 72, 32, 24, 48, 40, 80, 0, 88, 56, 8, 16, 56, 24, 0, 64, 40, 0, 24, 56, 88, 72, 48, 64],
    );
}

#[test]
fn the_random_order_is_pinned() {
    check_order(
        "random",
        "07ebacba022fbeed5be2c3d93f68ee214c53802c0d13efc51a2135fd24af57c4",
        &[15, 67, 33, 23, 35, 39, 43, 22, 68, 59, 67, 77, 34, 65, 74, 2, 13, 30, 0, 8, 54, 9, 59, 54],
    );
}

/// A checkpoint's vocabulary is compared with the text's by this digest.
#[test]
fn the_digest_of_a_vocabulary_is_pinned() {
    let characters = Vocabulary::of_text("to be, or not").unwrap().digest().unwrap();
    assert_eq!(characters.to_string(), "115d356539e6849bb3501cd5d9ed7f09a106ee79a172ad6015fda2b1beacf538");
    assert_eq!(
        Vocabulary::Byte.digest().unwrap().to_string(),
        "7da8b59d384076438bab9ae10dee36e1ed40155053c42c319918fb1eb47b641e"
    );
}

/// The same command on an empty root begins with the same weights. They come from logarithms and angles of double
/// precision, rounded to single: a system whose last bit differs rounds to the same values.
#[test]
fn the_initial_weights_are_pinned() {
    let preset = Gpt.presets().remove(0);
    let mut settings = Settings::defaults(Schema::new(Gpt.keys())).with_preset(&preset).unwrap();
    for (path, value) in [
        ("model.layers", "1"),
        ("model.heads", "2"),
        ("model.width", "8"),
        ("model.bias", "true"),
        ("model.tied", "false"),
        ("data.context", "4"),
    ] {
        settings.set(path, value).unwrap();
    }
    let device = Device::flex();
    let model = Gpt.build(&settings, 11, &Initial::new(1337, &device)).unwrap();
    assert_eq!(
        digest(&weights(&model)).unwrap().to_string(),
        "856b74298be525969484f156f89c6a385078b99f0f67b092c53d186cf1e478d0"
    );
    let few = Initial::new(1337, &device).normal("head.weight", [2, 3], 0.02);
    let bits: Vec<u32> = few.val().into_data().iter::<f32>().map(f32::to_bits).collect();
    let expected: &[u32] = &[3168140557, 996810954, 1009059880, 3165500680, 1000785313, 3171947989];
    assert_eq!(bits, expected);
}

/// A resumed run drops the values that an undisturbed one would have dropped.
#[test]
fn the_keys_of_dropout_are_pinned() {
    let keys = [(0, 0, 0), (1337, 1, 0), (1337, 999, 3), (9_007_199_254_740_991, 1 << 40, 7)]
        .map(|(seed, step, micro)| generator::key(seed, Stream::Dropout, step, micro));
    let expected: &[u64] =
        &[14839953947206530445, 15275172090291113952, 18277118553831039469, 12795709159613512525];
    assert_eq!(keys, expected);
}

/// What the first version wrote is compared with what this one computes of it.
#[test]
fn the_weights_and_texts_of_the_first_sample_have_the_digests_that_it_recorded() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let reader = ObjectReader::open(&samples.join("v1/root")).unwrap();
    let content = Digest::of_file(&samples.join("text.txt")).unwrap();
    let mut compared = 0;
    for run in reader.runs().unwrap() {
        for seq in &run.checkpoints {
            let node = run.last.at(*seq).unwrap();
            let checkpoint =
                Checkpoint::open(&reader.checkpoint(&node).unwrap().unwrap(), Depth::Whole).unwrap();
            let model = checkpoint.model().unwrap();
            let tensors = model.tensors().unwrap();
            let tensors: Vec<_> = tensors.iter().collect();
            let digest =
                digest_tensors(tensors.iter().map(|(name, view)| (*name, "F32", view.shape(), view.data())));
            let recorded = reader.node(&node).unwrap().unwrap().fields.remove("model/sha256");
            assert_eq!(recorded, Some(digest.to_string().into()), "{node}");
            let saved = &checkpoint.state().loader.fingerprint;
            let Fingerprint::Text(saved) = saved else { panic!("a text") };
            assert_eq!(saved.content_sha256, content, "{node}");
            assert_eq!(saved.tokenizer_sha256, checkpoint.vocabulary().unwrap().digest().unwrap(), "{node}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}
