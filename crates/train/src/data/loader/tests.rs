#![allow(clippy::unwrap_used, reason = "tests")]

use waycairn_dag::{Clock, Node};

use super::*;
use crate::data::{Reading, Source, Split, TextData, TextFingerprint, TextStream, Vocabulary};

fn parts() -> (Arc<TextData>, TextFingerprint) {
    let data = TextData::open(&Source::Embedded, Reading::OwnCharacters, 0.9).unwrap();
    let fingerprint = TextFingerprint {
        bytes: data.byte_len(),
        content_sha256: data.sha256(),
        tokenizer_sha256: data.vocabulary().digest().unwrap(),
        tokens: data.len(),
        train_tokens: data.split_len(Split::Train),
        seed: 3,
        order: "shuffled".to_owned(),
        context: 16,
        batch_size: 2,
        accumulate: 2,
    };
    (Arc::new(data), fingerprint)
}

fn loader(data: Arc<TextData>, fingerprint: &TextFingerprint, offset: u64, view: ClockView) -> Loader {
    Loader::new(Arc::new(TextStream::new(data, fingerprint.clone(), 0)), offset, view)
}

fn clock(seq: u64) -> Clock {
    Clock::new(Node::new("run", "949e88", seq).unwrap())
}

#[test]
fn train_2_a_batch_is_a_function_of_the_position() {
    let (data, fingerprint) = parts();
    let mut clock = clock(0);
    let loader = self::loader(Arc::clone(&data), &fingerprint, 5, clock.view());
    let first = loader.batch();
    assert!(Arc::ptr_eq(&first, &loader.batch()));
    assert_eq!(first.position(), 5);
    assert_eq!((first.of_text().rows, first.of_text().context, first.of_text().tokens.len()), (4, 16, 64));
    clock.tick().unwrap();
    let second = loader.batch();
    assert_ne!(first.sha256(), second.sha256());

    // Another run, another offset, the same position.
    let later = self::loader(data, &fingerprint, 0, self::clock(6).view());
    assert_eq!(later.batch().sha256(), second.sha256());
}

#[test]
fn train_2_other_data_and_another_seed_give_other_batches() {
    let (data, fingerprint) = parts();
    let batch = |data: &Arc<TextData>, fingerprint: &TextFingerprint| {
        self::loader(Arc::clone(data), fingerprint, 5, clock(0).view()).batch().sha256()
    };
    let first = batch(&data, &fingerprint);
    assert_eq!(batch(&data, &fingerprint), first);
    assert_ne!(batch(&data, &TextFingerprint { seed: 4, ..fingerprint.clone() }), first);
    let bytes = TextData::open(&Source::Embedded, Reading::Given(Vocabulary::Byte), 0.9).unwrap();
    assert_ne!(batch(&Arc::new(bytes), &fingerprint), first);
}

#[test]
fn train_2_asking_never_moves_the_stream() {
    let (data, fingerprint) = parts();
    let mut clock = clock(0);
    let loader = self::loader(Arc::clone(&data), &fingerprint, 0, clock.view());
    let undisturbed: Vec<_> = (0..6).map(|seq| loader.batch_at(seq).sha256()).collect();
    for seq in 0..6_u64 {
        // Back and forth, and more than once.
        for other in [seq + 3, 0, seq] {
            loader.batch_at(other);
        }
        assert_eq!(loader.batch().sha256(), undisturbed[seq as usize]);
        assert!(Arc::ptr_eq(&loader.batch(), &loader.batch()));
        clock.tick().unwrap();
    }
}

#[test]
fn micro_batches_are_slices_of_the_batch() {
    let (data, fingerprint) = parts();
    let loader = self::loader(data, &fingerprint, 0, clock(0).view());
    let batch = loader.batch();
    let joined: Vec<i32> = (0..2).flat_map(|index| batch.micro(index, 2).of_text().tokens.clone()).collect();
    assert_eq!(joined, batch.of_text().tokens);
    assert_eq!(batch.micro(1, 2).of_text().rows, 2);
}

#[test]
fn targets_are_the_inputs_one_later() {
    let (data, fingerprint) = parts();
    let loader = self::loader(data, &fingerprint, 0, clock(0).view());
    let batch = loader.batch();
    assert_eq!(batch.of_text().tokens[1..16], batch.of_text().targets[..15]);
}

#[test]
fn a_short_last_window_is_filled_and_weighs_nothing() {
    let (data, mut fingerprint) = parts();
    let tokens = fingerprint.train_tokens;
    fingerprint.context = tokens - 1 - (tokens - 1) / 3;
    fingerprint.batch_size = 2;
    fingerprint.accumulate = 1;
    let loader = self::loader(data, &fingerprint, 0, clock(0).view());
    let batch = loader.batch();
    assert_eq!(batch.counted(), tokens - 1);
    assert_eq!(batch.of_text().weights.as_ref().unwrap().len(), batch.of_text().tokens.len());
}

#[test]
fn a_vocabulary_of_bytes_reads_the_same_text() {
    let bytes = TextData::open(&Source::Embedded, Reading::Given(Vocabulary::Byte), 0.5).unwrap();
    assert_eq!(bytes.len(), bytes.byte_len());
}
