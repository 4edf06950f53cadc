#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "test files need no durability")]

use std::path::Path;

use waycairn_analysis_host::{AnalysisHost, OwnedTensor};

use super::*;
use crate::{Gpt, Stop, TrainRequest, train};

fn trained(root: &Path, more: &[(&str, &str)]) -> Node {
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
    .iter()
    .chain(more)
    .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
    .collect();
    train(&crate::experiments![Gpt], &request, &Stop::new(), &mut ()).unwrap().node
}

/// Calls `look` with the host of a node, as an analysis would see it.
fn with_host<R>(root: &Path, node: &Node, look: impl FnOnce(&PastNode<'_>) -> R) -> R {
    let experiments = crate::experiments![Gpt];
    let reader = ObjectReader::open(root).unwrap();
    let view = reader.node(node).unwrap().unwrap();
    let shared = past::Shared {
        experiments: &experiments,
        compute: &Compute::choose("cpu").unwrap(),
        reader: &reader,
        texts: &Texts::default(),
    };
    past::with_node(&shared, node, view.fields.get("data/batch_sha256"), look).unwrap()
}

#[test]
fn plugins_case_06_the_batch_of_a_past_node_is_the_one_that_training_used() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path(), &[]);
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
    let last = trained(folder.path(), &[]);
    with_host(folder.path(), &last.at(2).unwrap(), |host| {
        assert_eq!(host.node().seq, 2);
        assert_eq!(host.parents(), [last.at(1).unwrap().address().to_string()]);
        assert_eq!(host.experiment_settings()["model"]["width"], 16);
        assert!(host.weights().unwrap().iter().any(|view| view.name() == "blocks.0.mlp.hidden.weight"));
        let batch = host.batch().unwrap();
        let logits = host.forward(&batch).unwrap();
        assert_eq!(logits[0].name(), "logits");
        let vocabulary = host.checkpoint.tokens();
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
        let elements = crate::function::Elements::Tokens(&numbers);
        let given = crate::function::Given { name: "tokens", shape: vec![rows, 8], elements };
        let at_once: Vec<f32> = model.learner.forward(&[given]).unwrap()[0].values().collect();
        assert_eq!(found[0].view().as_f32().unwrap(), at_once, "on the CPU bit for bit");

        let wide = OwnedTensor::from_i64("tokens", vec![1, 9], &[0; 9]).unwrap();
        assert!(host.forward(&[wide]).unwrap_err().message().contains("1 to 8 tokens a row"));
        let outside = OwnedTensor::from_i64("tokens", vec![1, 1], &[100_000]).unwrap();
        assert!(host.forward(&[outside]).unwrap_err().message().contains("holds 100000"));
        assert!(host.forward(&[]).unwrap_err().message().contains("takes tokens: tokens [rows, time]"));

        let mut rows = host.scalars("seq < 2", &["train/loss".to_owned()]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().num_rows(), 2);
        assert!(host.scalars("seq <", &[]).is_err());
    });
}

fn named(tensors: &[OwnedTensor], names: &[&str]) -> Vec<OwnedTensor> {
    tensors.iter().filter(|tensor| names.contains(&tensor.name())).cloned().collect()
}

#[test]
fn the_loss_of_each_token_has_the_mean_that_training_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path(), &[("model.dropout", "0")]);
    // What a node records of its batch is the loss before the update, and its checkpoint has the weights after it.
    let reader = ObjectReader::open(folder.path()).unwrap();
    for seq in 1..4 {
        let (before, node) = (last.at(seq - 1).unwrap(), last.at(seq).unwrap());
        let recorded = match reader.node(&node).unwrap().unwrap().fields.get("train/loss") {
            Some(Scalar::Float(loss)) => *loss,
            other => panic!("{other:?}"),
        };
        let batch = with_host(folder.path(), &node, |host| host.batch().unwrap());
        with_host(folder.path(), &before, |host| {
            let inputs = named(&batch, &["tokens", "targets"]);
            let loss = host.call("loss", &inputs).unwrap();
            assert_eq!((loss.len(), loss[0].name()), (1, "loss"));
            let view = loss[0].view();
            assert_eq!(view.shape(), [3, 8]);
            let losses = view.as_f32().unwrap();
            let mean = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / 24.0;
            assert!((mean - recorded).abs() < 1e-5, "{seq}: {mean} {recorded}");

            // Each of them from the logits, by the definition.
            let logits = host.forward(&inputs).unwrap();
            let vocabulary = host.checkpoint.tokens();
            let rows = logits[0].view().as_f32().unwrap().chunks_exact(vocabulary);
            let targets = inputs.iter().find(|input| input.name() == "targets").unwrap();
            for ((row, target), loss) in rows.zip(targets.view().iter_f64().unwrap()).zip(losses) {
                let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
                let expected = sum.ln() - f64::from(row[target as usize]);
                assert!((f64::from(*loss) - expected).abs() < 1e-5, "{loss} {expected}");
            }
        });
    }
}

#[test]
fn the_head_decodes_any_stream_with_the_weights_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path(), &[("model.bias", "true"), ("model.tied", "false")]);
    with_host(folder.path(), &last, |host| {
        let (rows, time, width) = (7, 2, 16);
        let count = rows * time * width;
        let stream: Vec<f32> = (0..count).map(|index| (index as f32 * 0.7).sin() * 3.0).collect();
        let input = OwnedTensor::from_f32("stream", vec![rows, time, width], &stream).unwrap();
        let found = host.call("head", std::slice::from_ref(&input)).unwrap();
        let vocabulary = host.checkpoint.tokens();
        assert_eq!((found[0].name(), found[0].view().shape()), ("logits", &[rows, time, vocabulary][..]));
        assert_eq!(host.call("head", &[input]).unwrap(), found, "equal inputs give equal bits");

        let weight = |name: &str| -> Vec<f64> {
            let view = host.weights().unwrap().iter().find(|view| view.name() == name).unwrap();
            view.iter_f64().unwrap().collect()
        };
        let (gamma, beta) = (weight("final_norm.gamma"), weight("final_norm.beta"));
        let head = weight("head.weight");
        let logits = found[0].view().as_f32().unwrap();
        for (cell, logits) in stream.chunks_exact(width).zip(logits.chunks_exact(vocabulary)) {
            let cell: Vec<f64> = cell.iter().map(|value| f64::from(*value)).collect();
            let mean = cell.iter().sum::<f64>() / width as f64;
            let square = cell.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64;
            let normed = (0..width).map(|channel| {
                (cell[channel] - mean) / (square + 1e-5).sqrt() * gamma[channel] + beta[channel]
            });
            let normed: Vec<f64> = normed.collect();
            for (token, logit) in logits.iter().enumerate() {
                let expected: f64 =
                    (0..width).map(|channel| normed[channel] * head[channel * vocabulary + token]).sum();
                assert!((f64::from(*logit) - expected).abs() < 1e-4, "{logit} {expected}");
            }
        }
    });
}

#[test]
fn a_call_that_does_not_fit_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path(), &[]);
    with_host(folder.path(), &last, |host| {
        assert_eq!(host.functions().unwrap(), ["loss", "head"]);
        let error = host.call("lose", &[]).unwrap_err();
        assert_eq!(error.kind(), waycairn_analysis_host::ErrorKind::Unavailable);
        assert_eq!(error.message(), "the experiment `gpt` has no function `lose`; it has `loss`, `head`");
        let batch = host.batch().unwrap();
        let refused = |function: &str, inputs: &[OwnedTensor]| {
            let error = host.call(function, inputs).unwrap_err();
            assert_eq!(error.kind(), waycairn_analysis_host::ErrorKind::Invalid);
            error.message().to_owned()
        };
        let takes =
            "`loss` takes tokens: tokens [rows, time], targets: tokens [rows, time], and was given `tokens`";
        assert_eq!(refused("loss", &named(&batch, &["tokens"])), takes);
        let wide = OwnedTensor::from_f32("stream", vec![1, 1, 17], &[0.0; 17]).unwrap();
        assert_eq!(
            refused("head", &[wide]),
            "`stream` of `head` has the shape [1, 1, 17], and width is 16; it takes stream: float32 [rows, time, width]"
        );
        assert!(host.model.get().is_none(), "what does not fit restores no model");
    });
}

#[test]
fn a_node_without_a_checkpoint_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let last = trained(folder.path(), &[]);
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
    let last = trained(folder.path(), &[]);
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
