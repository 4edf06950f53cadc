#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "test files need no durability")]

use std::path::Path;

use waycairn_analysis_host::{AnalysisHost, OwnedTensor};

use super::*;
use crate::{Gpt, Stop, TrainRequest, train};

fn trained(root: &Path) -> Node {
    let mut request = TrainRequest::new(root);
    request.name = Some("run".to_owned());
    request.sets = [
        ("steps", "4"),
        ("model.width", "16"),
        ("model.layers", "1"),
        ("model.dropout", "0.2"),
        ("data.context", "8"),
        ("batch_size", "3"),
        ("checkpoint_every", "1"),
        ("eval_every", "off"),
        ("warmup", "1"),
    ]
    .map(|(path, value)| (path.to_owned(), value.to_owned()))
    .to_vec();
    train(&crate::experiments![Gpt], &request, &Stop::new(), &mut ()).unwrap().node
}

/// Calls `look` with the host of a node, as an analysis would see it.
fn with_host(root: &Path, node: &Node, look: impl FnOnce(&PastNode<'_>)) {
    let experiments = crate::experiments![Gpt];
    let reader = ObjectReader::open(root).unwrap();
    let view = reader.node(node).unwrap().unwrap();
    let shared = past::Shared {
        experiments: &experiments,
        compute: &Compute::choose("cpu").unwrap(),
        reader: &reader,
        texts: &Texts::default(),
    };
    past::with_node(&shared, node, view.fields.get("data/batch_sha256"), look).unwrap();
}

#[test]
fn plugins_case_06_the_batch_of_a_past_node_is_the_one_that_training_used() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path());
    for seq in 0..4 {
        let node = last.at(seq).unwrap();
        with_host(folder.path(), &node, |host| {
            let recorded = host.recorded.cloned().unwrap();
            assert_eq!(Scalar::Text(host.replay().unwrap().sha256().to_string()), recorded);
            let batch = host.batch().unwrap();
            let names: Vec<&str> = batch.iter().map(OwnedTensor::name).collect();
            assert_eq!(names, ["targets", "tokens"]);
            assert_eq!(batch[1].view().shape(), [3, 8]);
        });
    }
}

#[test]
fn a_past_node_runs_its_model_and_shows_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path());
    with_host(folder.path(), &last.at(2).unwrap(), |host| {
        assert_eq!(host.node().seq, 2);
        assert_eq!(host.parents(), [last.at(1).unwrap().address().to_string()]);
        assert_eq!(host.experiment_settings()["model"]["width"], 16);
        assert!(host.weights().unwrap().iter().any(|view| view.name() == "blocks.0.mlp.hidden.weight"));
        let batch = host.batch().unwrap();
        let logits = host.forward(&batch).unwrap();
        assert_eq!(logits[0].name(), "logits");
        let vocabulary = host.checkpoint.vocabulary().len();
        assert_eq!(logits[0].view().shape(), [3, 8, vocabulary]);
        // No randomness, so twice the same.
        assert_eq!(host.forward(&batch).unwrap(), logits);

        // More rows than a batch of training, in blocks of which the last is short.
        let rows = 8;
        let tokens: Vec<i64> = (0..rows * 8).map(|index| (index * 7 % vocabulary) as i64).collect();
        let many = OwnedTensor::from_i64("tokens", vec![rows, 8], &tokens).unwrap();
        let found = host.forward(&[many]).unwrap();
        assert_eq!(found[0].view().shape(), [rows, 8, vocabulary]);
        let numbers: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
        let model = host.model().unwrap();
        assert_eq!(model.rows, 3);
        let (_, at_once) = model.learner.forward(&numbers, rows, 8);
        assert_eq!(found[0].view().as_f32().unwrap(), at_once, "on the CPU bit for bit");

        let wide = OwnedTensor::from_i64("tokens", vec![1, 9], &[0; 9]).unwrap();
        assert!(host.forward(&[wide]).unwrap_err().message().contains("1 to 8 tokens a row"));
        let outside = OwnedTensor::from_i64("tokens", vec![1, 1], &[100_000]).unwrap();
        assert!(host.forward(&[outside]).unwrap_err().message().contains("holds 100000"));
        assert!(host.forward(&[]).unwrap_err().message().contains("needs the input `tokens`"));

        let mut rows = host.scalars("seq < 2", &["train/loss".to_owned()]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().num_rows(), 2);
        assert!(host.scalars("seq <", &[]).is_err());
    });
}

#[test]
fn a_node_without_a_checkpoint_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path());
    let request = AnalyzeRequest {
        root: folder.path().to_owned(),
        analyses: Vec::new(),
        at: vec![Node::new("run", last.nonce(), 77).unwrap()],
        sets: Vec::new(),
        force: false,
        device: "cpu".to_owned(),
        tag: None,
    };
    let error = analyze(&crate::experiments![Gpt], &request).unwrap_err();
    assert_eq!(error.code(), "no_checkpoint");
    assert!(error.next().unwrap().contains(&last.to_string()), "{:?}", error.next());
}

#[test]
fn text_can_be_sampled_from_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path());
    let experiments = crate::experiments![Gpt];
    let options = crate::SampleOptions {
        prompt: Some("fn main".to_owned()),
        tokens: 40,
        top_k: Some(5),
        ..crate::SampleOptions::default()
    };
    let text = crate::sample(&experiments, folder.path(), &last, &options).unwrap();
    assert!(text.starts_with("fn main"));
    assert_eq!(text.chars().count(), 47);
    assert_eq!(crate::sample(&experiments, folder.path(), &last, &options).unwrap(), text);
    let other = crate::SampleOptions { seed: 1, ..options.clone() };
    assert_ne!(crate::sample(&experiments, folder.path(), &last, &other).unwrap(), text);
    let foreign = crate::SampleOptions { prompt: Some("a\u{4e00}".to_owned()), ..options };
    let error = crate::sample(&experiments, folder.path(), &last, &foreign).unwrap_err();
    assert!(error.to_string().starts_with("the prompt holds the character '\u{4e00}' at byte 1"), "{error}");
}
