#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use waycairn_dag::{Clock, Node};
use waycairn_durable::Digest;

use super::*;
use crate::checkpoint::{Checkpoint, Contents, Depth, JobFile, LoaderState, State, write};
use crate::data::{Fingerprint, Loader, Reading, Source, Split, TextData, TextFingerprint, TextStream};
use crate::language::Language;
use crate::schedule::Schedule;
use crate::settings::Schema;
use crate::{Experiment, Gpt};

struct Rig {
    settings: Settings,
    data: Arc<TextData>,
    fingerprint: TextFingerprint,
    schedule: Schedule,
}

fn rig() -> Rig {
    let mut settings = Settings::defaults(Schema::new(Gpt.keys()));
    for (path, value) in [
        ("model.width", "16"),
        ("model.dropout", "0.2"),
        ("model.bias", "true"),
        ("data.context", "16"),
        ("batch_size", "3"),
        ("accumulate", "2"),
        ("steps", "20"),
        ("warmup", "3"),
        ("clip", "0.5"),
    ] {
        settings.set(path, value).unwrap();
    }
    let data = TextData::open(&Source::Embedded, Reading::OwnCharacters, 0.9).unwrap();
    let fingerprint = TextFingerprint {
        bytes: data.byte_len(),
        content_sha256: data.sha256(),
        tokenizer_sha256: data.vocabulary().digest().unwrap(),
        tokens: data.len(),
        train_tokens: data.split_len(Split::Train),
        seed: 1337,
        order: "shuffled".to_owned(),
        context: 16,
        batch_size: 3,
        accumulate: 2,
    };
    Rig { schedule: Schedule::new(&settings).unwrap(), data: Arc::new(data), settings, fingerprint }
}

impl Rig {
    fn learner(&self) -> Held<Language<Gpt>> {
        let vocabulary = self.data.vocabulary().len();
        Held::new(Language(Arc::new(Gpt)), &self.settings, vocabulary, &Device::flex()).unwrap()
    }

    fn loader(&self, view: waycairn_dag::ClockView) -> Loader {
        let stream = TextStream::new(Arc::clone(&self.data), self.fingerprint.clone(), 0);
        Loader::new(Arc::new(stream), 0, view)
    }

    /// Does step `step` and returns the bits of loss and gradient norm.
    fn step(&self, learner: &mut Held<Language<Gpt>>, step: u64) -> (u64, u64) {
        let clock = Clock::new(Node::new("run", "949e88", step - 1).unwrap());
        let loader = self.loader(clock.view());
        let batch = loader.batch();
        for micro in 0..2 {
            let draw = Draw { seed: 1337, step, micro: micro as u64 };
            learner.accumulate(&batch.micro(micro, 2), 0.5, draw);
        }
        let (loss, norm) = learner.gradients();
        let bits = (loss.unwrap().read().to_bits(), norm.unwrap().read().to_bits());
        learner.update(self.schedule.rate(step), Some(0.5));
        bits
    }

    fn save(&self, snapshot: Snapshot, step: u64, folder: &Path) -> Digest {
        let state = State {
            version: 1,
            node: "node".to_owned(),
            step,
            tokens: 0,
            skipped: 0,
            schedule: crate::checkpoint::ScheduleState { learning_rate: 0.0 },
            loader: LoaderState {
                offset: 0,
                position: step,
                fingerprint: Fingerprint::Text(self.fingerprint.clone()),
                changed_data_allowed: false,
            },
            scaler: None,
            optimizer: BTreeMap::new(),
        };
        let job = JobFile {
            version: 1,
            experiment: "gpt".to_owned(),
            experiment_version: "1".to_owned(),
            name: "run".to_owned(),
            base: None,
            settings_sha256: self.settings.digest().unwrap(),
            execution: String::new(),
            command_line: Vec::new(),
            git: None,
            host: String::new(),
            device: "cpu".to_owned(),
            threads: 1,
            cpu_features: Vec::new(),
            packages: BTreeMap::new(),
            data: Fingerprint::Text(self.fingerprint.clone()),
        };
        let contents = Contents {
            snapshot,
            state,
            seed: 1337,
            config: self.settings.to_toml(),
            tokenizer: Some(Arc::new(self.data.vocabulary().clone())),
            job: Arc::new(job),
        };
        write(folder, contents).unwrap().model_sha256
    }

    fn load(&self, folder: &Path) -> (Held<Language<Gpt>>, Result<Mismatch, MomentsError>) {
        let checkpoint = Checkpoint::open(folder, Depth::Whole).unwrap();
        let (weights, optimizer) = (checkpoint.model().unwrap(), checkpoint.optimizer().unwrap());
        let mut learner = self.learner();
        let saved = Saved {
            weights: &weights.tensors().unwrap(),
            optimizer: Some((&optimizer.tensors().unwrap(), &checkpoint.state().optimizer)),
            partial: false,
        };
        let mismatch = learner.restore(&saved);
        (learner, mismatch)
    }
}

fn sha256(learner: &Held<Language<Gpt>>) -> Digest {
    weights::digest(&weights::weights(&learner.model)).unwrap()
}

/// TRAIN-1 at its heart: weights and moments through files, randomness from the step alone.
#[test]
fn train_1_a_restored_learner_goes_on_with_equal_bits() {
    let rig = rig();
    let folder = tempfile::tempdir().unwrap();
    let mut learner = rig.learner();
    let mut whole = Vec::new();
    for step in 1..=8 {
        whole.push(rig.step(&mut learner, step));
        if step == 3 {
            rig.save(learner.snapshot(), 3, folder.path());
        }
    }
    let (mut again, mismatch) = rig.load(folder.path());
    assert!(mismatch.unwrap().is_empty());
    let rest: Vec<_> = (4..=8).map(|step| rig.step(&mut again, step)).collect();
    assert_eq!(rest, whole[3..]);
    assert_eq!(sha256(&again), sha256(&learner));
}

#[test]
fn training_case_09_a_save_keeps_the_saved_node_while_the_next_step_runs() {
    let rig = rig();
    let folder = tempfile::tempdir().unwrap();
    let mut learner = rig.learner();
    rig.step(&mut learner, 1);
    let expected = sha256(&learner);
    let moments = take_apart(&learner.optimizer, &learner.parameters).unwrap();
    let snapshot = learner.snapshot();
    for step in 2..=4 {
        rig.step(&mut learner, step);
    }
    assert_ne!(sha256(&learner), expected);
    assert_eq!(rig.save(snapshot, 1, folder.path()), expected);
    let (restored, mismatch) = rig.load(folder.path());
    assert!(mismatch.unwrap().is_empty());
    assert_eq!(sha256(&restored), expected);
    let again = take_apart(&restored.optimizer, &restored.parameters).unwrap();
    assert_eq!(weights::digest(&again.tensors), weights::digest(&moments.tensors));
    assert_eq!(again.scalars, moments.scalars);
}

#[test]
fn moments_are_keyed_by_the_parameters_path() {
    let rig = rig();
    let mut learner = rig.learner();
    rig.step(&mut learner, 1);
    let moments = take_apart(&learner.optimizer, &learner.parameters).unwrap();
    assert_eq!(moments.tensors.len(), 2 * learner.parameters.len());
    let names: Vec<&str> = moments.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert!(names.contains(&"blocks.1.attention.qkv.weight.momentum.moment_1"), "{names:?}");
    assert_eq!(moments.scalars["final_norm.gamma.momentum.time"], SavedScalar::Uint(1));
}

#[test]
fn train_4_a_parameter_without_moments_is_an_error_unless_partial() {
    let rig = rig();
    let mut learner = rig.learner();
    rig.step(&mut learner, 1);
    let mut moments = take_apart(&learner.optimizer, &learner.parameters).unwrap();
    moments.tensors.retain(|tensor| !tensor.name.starts_with("final_norm.gamma."));
    let mut bytes = Vec::new();
    crate::checkpoint::write_tensors(&moments.tensors, &mut bytes).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let other = rig.learner();
    let together = |partial| {
        let fresh = optimizer::build(&other.rule, &other.parameters);
        put_together(fresh, &other.parameters, &file, &moments.scalars, partial)
    };
    let error = together(false).err().unwrap();
    assert_eq!(error.to_string(), "the checkpoint has no optimizer state for `final_norm.gamma`");
    let partial = take_apart(&together(true).unwrap(), &other.parameters).unwrap();
    assert_eq!(partial.tensors.len(), 2 * (other.parameters.len() - 1));
}

#[test]
fn train_4_a_parameter_without_its_step_count_is_an_error_unless_partial() {
    let rig = rig();
    let mut learner = rig.learner();
    rig.step(&mut learner, 1);
    let moments = take_apart(&learner.optimizer, &learner.parameters).unwrap();
    let mut bytes = Vec::new();
    crate::checkpoint::write_tensors(&moments.tensors, &mut bytes).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let other = rig.learner();
    let together = |partial, scalars: &BTreeMap<String, SavedScalar>| {
        let fresh = optimizer::build(&other.rule, &other.parameters);
        put_together(fresh, &other.parameters, &file, scalars, partial)
    };
    together(false, &moments.scalars).unwrap();
    let mut one = moments.scalars.clone();
    one.retain(|name, _| !name.starts_with("final_norm.gamma."));
    assert!(one.len() < moments.scalars.len());
    for scalars in [one, BTreeMap::new()] {
        let error = together(false, &scalars).err().unwrap();
        assert!(matches!(error, MomentsError::MissingField { .. }), "{error}");
        let left = scalars.len();
        let partial = take_apart(&together(true, &scalars).unwrap(), &other.parameters).unwrap();
        assert_eq!(partial.scalars.len(), left, "what is not whole begins anew");
    }
}

#[test]
fn matrices_decay_and_vectors_do_not() {
    let rig = rig();
    let mut learner = rig.learner();
    let parameters = weights::parameters(&learner.model);
    // Zero gradients: what is left of an update is the decay.
    let mut gradients = GradientsParams::new();
    for parameter in &parameters {
        if parameter.rank == 1 {
            let zeros: Tensor<1> = Tensor::zeros([parameter.len], &Device::flex());
            gradients.register(parameter.id, zeros);
        }
    }
    let table = &parameters[0];
    assert_eq!(table.path, "token_embedding.weight");
    let zeros: Tensor<2> = Tensor::zeros([table.len / 16, 16], &Device::flex());
    gradients.register(table.id, zeros);
    let before = weights::weights(&learner.model);
    learner.model = learner.optimizer.step(0.5, learner.model.clone(), gradients);
    let after = weights::weights(&learner.model);
    for (before, after) in before.iter().zip(&after) {
        let (old, new) = (before.data.as_slice::<f32>().unwrap(), after.data.as_slice::<f32>().unwrap());
        if before.name == "token_embedding.weight" {
            let expected = old[0] * (1.0 - 0.5 * 0.1);
            assert!((new[0] - expected).abs() < 1e-7, "{} {}", new[0], expected);
        } else {
            assert_eq!(old, new, "{}", before.name);
        }
    }
}

#[test]
fn clipping_scales_to_the_limit() {
    let rig = rig();
    let mut learner = rig.learner();
    learner.accumulate(
        &rig.loader(Clock::new(Node::new("run", "949e88", 0).unwrap()).view()).batch(),
        1.0,
        Draw { seed: 1, step: 1, micro: 0 },
    );
    let (_, norm) = learner.gradients();
    let norm = norm.unwrap();
    assert!(norm.read() > 0.2);
    let mut gradients = learner.gradients.take().unwrap();
    optimizer::clip(&learner.model, &mut gradients, &norm.0, 0.1);
    let clipped = optimizer::global_norm(&learner.model, &gradients).unwrap();
    assert!((clipped.into_scalar::<f32>() - 0.1).abs() < 1e-4);
}

#[test]
fn sampling_with_a_cache_gives_the_logits_of_the_whole_forward_pass() {
    let rig = rig();
    let learner = rig.learner();
    let tokens: Vec<u32> = (0..10).map(|index| index * 3 % 50).collect();
    let numbers: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
    let given =
        Given { name: "tokens", shape: vec![1, 10], elements: crate::function::Elements::Tokens(&numbers) };
    let answer = learner.forward(&[given]).unwrap().remove(0);
    let (shape, logits): (_, Vec<f32>) = (answer.shape.clone(), answer.values().collect());
    let vocabulary = shape[2];
    let mut cache = KeyValueCache::default();
    learner.next_logits(&tokens[..4], &mut cache).unwrap();
    learner.next_logits(&tokens[4..6], &mut cache).unwrap();
    for end in 7..=10 {
        let next = learner.next_logits(&tokens[end - 1..end], &mut cache).unwrap();
        let whole = &logits[(end - 1) * vocabulary..end * vocabulary];
        let worst = next.iter().zip(whole).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "token {end}: {worst}");
    }
    assert_eq!(cache.tokens, 10);
}
