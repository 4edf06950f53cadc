//! Scores: of a network that is known by hand, kept or computed where they are needed, retained or not.

use serde_json::json;
use waycairn_analysis_host::OwnedTensor;

use crate::kit::{Built, Study};

fn tensor(name: &str, shape: &[usize], values: &[f32]) -> OwnedTensor {
    OwnedTensor::from_f32(name, shape.to_vec(), values).unwrap()
}

/// A network whose logit is x + 2 theta: two features of opposite sign, whose difference is their input.
fn linear() -> Study {
    let mut study = Study::smoke(1, &["mean:*"], "uniform").set("training.model.hidden", json!([2]));
    study.weights = vec![
        // Row by row: the weights of x, then those of theta.
        tensor("layers.0.weight", &[2, 2], &[1.0, -1.0, 2.0, -2.0]),
        tensor("layers.0.bias", &[2], &[0.0, 0.0]),
        tensor("layers.1.weight", &[2, 1], &[1.0, -1.0]),
        tensor("layers.1.bias", &[1], &[0.0]),
    ];
    study
}

#[test]
fn gaussian_case_12_a_known_logit_goes_through_every_product() {
    let study = linear().set("analysis.verification.pair_design", "uniform".into());
    let built = study.build_all();
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
    let sum =
        |x: &[f32], theta: f32| -> f64 { x.iter().map(|x| f64::from(*x) + 2.0 * f64::from(theta)).sum() };
    let (x, theta) = (built.f32("observations", "observations"), built.f32("candidates", "theta"));
    let scores = built.f64("ensemble_scores", "log_score");
    for (case, x) in x.chunks_exact(15).enumerate() {
        for (k, theta) in theta.iter().enumerate() {
            close(scores[case * theta_count(&built) + k], sum(x, *theta));
        }
        let truth = built.f32("observations", "truth")[case];
        close(built.f64("ensemble_scores", "truth_log_score")[case], sum(x, truth));
    }
    let logits = built.f64("test_predictions", "logits");
    let rows = built.f32("training", "test_x").iter().zip(built.f32("training", "test_theta"));
    logits.iter().zip(rows).for_each(|(logit, (x, theta))| close(*logit, sum(&[*x], *theta)));
    assert_eq!(built.f32("test_predictions", "labels"), built.f32("training", "test_y"));
    // A ratio of two points is twice their distance, at every x.
    let pairs = built.f64("verification_observations", "pairs");
    for name in ["probe_log_ratio", "source_log_ratio"] {
        for (pair, ratios) in built.f64("verification_predictions", name).chunks_exact(64).enumerate() {
            ratios.iter().for_each(|ratio| close(*ratio, 2.0 * (pairs[2 * pair + 1] - pairs[2 * pair])));
        }
    }
    built.f64("showcase_predictions", "log_ratio").iter().for_each(|ratio| close(*ratio, 8.0));
    let x = built.f32("normalization_observations", "x");
    let points = built.f32("normalization_observations", "theta");
    for (ratios, theta) in built.f64("normalization_predictions", "log_ratio").chunks_exact(128).zip(points) {
        ratios.iter().zip(x).for_each(|(ratio, x)| close(*ratio, sum(&[*x], *theta)));
    }
    // Exact ratios: ((x - a)^2 - (x - b)^2) / 8.
    let x = built.f32("verification_observations", "source_x");
    let exact = built.f64("verification_predictions", "source_exact_log_ratio");
    for (index, (x, ratio)) in x.iter().zip(exact).enumerate() {
        let (a, b, x) = (pairs[index / 64 * 2], pairs[index / 64 * 2 + 1], f64::from(*x));
        close(*ratio, ((x - a).powi(2) - (x - b).powi(2)) / 8.0);
    }
    // The score rises with theta: the mode is the highest candidate.
    let highest = theta.iter().copied().fold(0.0_f32, f32::max);
    assert!(built.f64("inference", "ratio_mode").iter().all(|mode| *mode == f64::from(highest)));
}

fn theta_count(built: &Built) -> usize {
    built.f32("candidates", "theta").len()
}

#[test]
fn gaussian_study_2_kept_and_streamed_scores_make_equal_bits() {
    for (dimension, infer, prior) in
        [(1, &["mean:*"][..], "grid"), (1, &["mean:*"], "exponential"), (2, &["mean:*", "std:1"], "normal")]
    {
        let kept = Study::smoke(dimension, infer, prior);
        let streamed = kept.clone().set("analysis.inference.max_score_bytes", json!(0));
        let (kept, streamed) = (kept.build(&["inference"]), streamed.build(&["inference"]));
        let scores = streamed.product("ensemble_scores");
        assert_eq!(scores.metadata["scores"], "streamed");
        assert!(scores.arrays.values().all(|array| array.bytes().is_empty()));
        assert!(kept.product("inference") == streamed.product("inference"), "{prior}");
    }
}

#[test]
fn no_number_of_rows_at_once_changes_a_bit() {
    let study = Study::smoke(1, &["mean:*"], "uniform");
    let built = study.build_all();
    for rows in [1, 1_000_000] {
        let other = study.clone().set("training.training.evaluation_batch_size", json!(rows)).build_all();
        assert!(other == built, "{rows}");
    }
}

#[test]
fn gaussian_case_28_retained_rows_are_the_scores_that_the_summary_saw() {
    let study = Study::smoke(1, &["mean:*"], "normal").set("analysis.inference.retain", "full".into());
    let built = study.build(&["inference"]);
    let (k, scores) = (theta_count(&built), built.f64("ensemble_scores", "log_score"));
    assert_eq!(built.product("inference").arrays["ratio_log_score"].shape, [7, k]);
    assert_eq!(built.f64("inference", "ratio_log_score"), scores);
    // Normal around 5 with deviation 4: once, not once for each observation.
    let theta = built.f32("candidates", "theta");
    let posterior = built.f64("inference", "posterior_log_score");
    for (index, (posterior, ratio)) in posterior.iter().zip(scores).enumerate() {
        let z = (f64::from(theta[index % k]) - 5.0) / 4.0;
        let prior = posterior - ratio;
        // Calculated for the specification: the log density at 5.
        assert!((prior - (-2.067_864_21 - 0.5 * z * z)).abs() < 1e-6, "{prior}");
    }
    // Few retained rows are those of all.
    let few = Study::smoke(1, &["mean:*"], "normal").build(&["inference"]);
    for target in ["ratio", "posterior", "exact"] {
        let (all, some) = (
            built.f64("inference", &format!("{target}_log_score")),
            few.f64("inference", &format!("{target}_log_score")),
        );
        assert_eq!((&some[..k], &some[k..]), (&all[..k], &all[6 * k..]));
        let normalizer = built.f64("inference", &format!("{target}_log_normalizer"));
        let measure = built.f64("candidates", "log_measure");
        for (row, normalizer) in all.chunks_exact(k).zip(normalizer) {
            let mass: f64 = row.iter().zip(measure).map(|(s, w)| (s + w - normalizer).exp()).sum();
            assert!((mass - 1.0).abs() < 1e-9, "{mass}");
        }
    }
}

#[test]
fn gaussian_case_26_on_a_lattice_projection_and_membership_agree() {
    let built = Study::smoke(1, &["mean:*"], "grid").build(&["inference"]);
    let truth = built.f32("observations", "truth");
    let lower = built.f64("inference", "exact_lower");
    let upper = built.f64("inference", "exact_upper");
    for (index, inside) in built.f64("inference", "exact_joint_contains_truth").iter().enumerate() {
        let truth = f64::from(truth[index / 2]);
        let projected = lower[index] <= truth && truth <= upper[index];
        assert_eq!(*inside, f64::from(u8::from(projected)), "{index}");
    }
}

#[test]
fn the_exact_target_alone_asks_the_model_nothing() {
    let mut study =
        Study::smoke(1, &["mean:*"], "uniform").set("analysis.inference.targets", json!(["exact"]));
    study.weights.clear();
    let built = study.build(&["inference"]);
    assert_eq!(built.product("ensemble_scores").metadata["scores"], "unused");
    let all = Study::smoke(1, &["mean:*"], "uniform").build(&["inference"]);
    assert_eq!(built.f64("inference", "exact_mode"), all.f64("inference", "exact_mode"));
}

#[test]
fn weights_that_do_not_fit_the_settings_are_told() {
    let study = Study::smoke(1, &["mean:*"], "uniform");
    let built = study.build(&["training"]);
    let refused = |study: Study| study.try_build("test_predictions", &built).err().unwrap();
    let wider = refused(study.clone().set("training.model.hidden", json!([32, 64])));
    assert!(
        wider.contains("layers.1.weight") && wider.contains("[32, 32]") && wider.contains("[32, 64]"),
        "{wider}"
    );
    let deeper = refused(study.clone().set("training.model.hidden", json!([32, 32, 32])));
    assert!(deeper.contains("layers.2.weight"), "{deeper}");
    let residual = refused(study.clone().set("training.model.kind", "residual".into()));
    assert!(
        residual.contains("no tensor `input.weight`") && residual.contains("layers.0.bias"),
        "{residual}"
    );
    let mut infinite = study;
    infinite.weights[1] = tensor("layers.0.bias", &[32], &[f32::INFINITY; 32]);
    assert!(refused(infinite).contains("weights are finite"));
}

#[test]
fn long_builders_end_where_they_are_asked_to() {
    let study =
        Study::smoke(1, &["mean:*"], "uniform").set("training.training.evaluation_batch_size", json!(16));
    let built = study.build_all();
    for (name, at) in [
        ("observations", 0),
        ("ensemble_scores", 1),
        ("inference", 0),
        ("test_predictions", 5),
        ("verification_observations", 2),
        ("verification_predictions", 0),
        ("reweighting_distances", 0),
        ("normalization_predictions", 9),
        ("showcase_observations", 1),
        ("showcase_predictions", 3),
        ("calibration_observations", 0),
        ("calibration_scores", 1),
    ] {
        let error = study.cancelled(name, &built, at);
        assert!(error.ends_with("it was asked to end"), "{name}: {error}");
    }
}

#[test]
fn what_was_not_planned_is_not_saved() {
    let study = Study::smoke(1, &["mean:*"], "uniform");
    let more = study.clone().set("analysis.inference.repeats", json!(2)).build(&["ensemble_scores"]);
    let refused = study.try_build("inference", &more).err().unwrap();
    assert!(refused.contains("14 cases") && refused.contains("inference.max_saved_bytes"), "{refused}");
}
