//! Every metric answers, with the fields that it is known by.

use serde_json::{Value, json};
use waycairn_analysis_host::{Kind, OwnedTensor};

use crate::kit::{Built, Study, library};

const FIELDS: &[(&str, &[&str])] = &[
    ("classification", &["bce", "accuracy", "auc"]),
    ("bias", &["mean_signed", "mean_absolute", "rmse", "per_axis_signed", "per_axis_absolute"]),
    (
        "coverage",
        &[
            "levels",
            "projected_mean",
            "projected_per_axis",
            "joint_density",
            "cases",
            "interpretation",
            "unique_truths",
        ],
    ),
    ("width", &["levels", "mean", "per_axis"]),
    (
        "resolution",
        &[
            "candidate_count",
            "candidate_ess_min",
            "candidate_ess_median",
            "candidate_ess_fraction_median",
            "mean_enclosed_mass",
            "base_measure",
            "warning",
        ],
    ),
    ("posterior", &["enabled", "bias", "coverage", "width"]),
    ("exact_reference", &["enabled", "bias", "coverage", "width", "learned_vs_exact_mode_rmse", "caveat"]),
    (
        "pairwise",
        &[
            "rmse_pooled",
            "mae_pooled",
            "max_absolute",
            "per_pair_rmse",
            "median_pair_rmse",
            "worst_pair_rmse",
            "spearman_distance_rmse",
            "distance_definition",
        ],
    ),
    (
        "reweighting",
        &[
            "median_sliced_w1",
            "worst_sliced_w1",
            "median_exact_sliced_w1",
            "median_unweighted_sliced_w1",
            "median_ess",
            "median_ess_fraction",
            "spearman_distance_w1",
        ],
    ),
    (
        "normalization",
        &["log_mean_ratio_per_theta", "expected_log_mean", "mean_absolute_log_error", "caveat"],
    ),
    ("median_absolute_bias", &["median_absolute"]),
    ("parameter_count", &["trainable_parameters"]),
    (
        "simulation_based_calibration",
        &["cases", "band_probability", "inside", "largest_difference", "interpretation", "exact_posterior"],
    ),
    (
        "tarp",
        &["levels", "coverage", "cases", "band_probability", "inside", "interpretation", "exact_posterior"],
    ),
];

fn all(study: &Study) -> (Built, Vec<Value>) {
    let built = study.build_all();
    let answers = FIELDS.iter().map(|(name, _)| study.metric(name, &built).unwrap()).collect();
    (built, answers)
}

#[test]
fn every_metric_answers_with_its_fields() {
    let metrics = library().analyses().iter().filter(|known| known.declaration().kind == Kind::Metric);
    let mut names: Vec<&str> = metrics.map(|known| known.declaration().name.as_str()).collect();
    names.sort_unstable();
    let mut expected: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for study in [
        Study::smoke(1, &["mean:*"], "uniform"),
        Study::smoke(2, &["mean:*", "std:1"], "exponential"),
        Study::smoke(1, &["mean:*"], "grid"),
    ] {
        let (_, answers) = all(&study);
        for ((name, fields), answer) in FIELDS.iter().zip(answers) {
            for field in *fields {
                assert!(answer.get(*field).is_some(), "{name} has no {field}: {answer}");
            }
        }
    }
}

#[test]
fn answers_are_those_of_the_arrays() {
    let study = Study::smoke(2, &["mean:*", "std:1"], "uniform");
    let (built, answers) = all(&study);
    let of = |name: &str| &answers[FIELDS.iter().position(|(known, _)| *known == name).unwrap()];
    let (mode, truth) = (built.f64("inference", "ratio_mode"), built.f32("observations", "truth"));
    let errors: Vec<f64> = mode.iter().zip(truth).map(|(mode, truth)| mode - f64::from(*truth)).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!((of("bias")["mean_signed"].as_f64().unwrap() - mean).abs() < 1e-12);
    let axis = errors.iter().skip(2).step_by(3).sum::<f64>() / 343.0;
    assert!((of("bias")["per_axis_signed"][2].as_f64().unwrap() - axis).abs() < 1e-12);
    assert_eq!((&of("coverage")["cases"], &of("coverage")["unique_truths"]), (&json!(343), &json!(343)));
    assert_eq!(of("width")["levels"], json!([0.68, 0.95]));
    assert_eq!(of("resolution")["candidate_count"], 256);
    assert_eq!(of("posterior")["enabled"], true);
    assert_eq!(of("pairwise")["per_pair_rmse"].as_array().unwrap().len(), 4);
    assert_eq!(of("normalization")["log_mean_ratio_per_theta"].as_array().unwrap().len(), 4);
    // 5 inputs, 32, 32, 1.
    assert_eq!(of("parameter_count")["trainable_parameters"], 5 * 32 + 32 + 32 * 32 + 32 + 33);
    assert_eq!(of("simulation_based_calibration")["inside"].as_array().unwrap().len(), 3);
    let ess = of("reweighting")["median_ess"].as_f64().unwrap();
    assert!((of("reweighting")["median_ess_fraction"].as_f64().unwrap() - ess / 64.0).abs() < 1e-12);
    // The uniform prior is flat, and posterior and ratio are one.
    assert_eq!(of("posterior")["bias"], *of("bias"));
}

#[test]
fn gaussian_case_20_parameters_of_any_model_are_counted() {
    let mut study = Study::smoke(1, &["mean:*"], "uniform");
    study.weights = vec![
        OwnedTensor::from_f32("linear.weight", vec![1, 1], &[2.0]).unwrap(),
        OwnedTensor::from_f32("linear.bias", vec![1], &[1.0]).unwrap(),
    ];
    let count = study.metric("parameter_count", &Built::default()).unwrap();
    assert_eq!(count, json!({"trainable_parameters": 2}));
}

#[test]
fn a_metric_of_the_ratio_is_refused_where_that_is_no_target() {
    let study = Study::smoke(1, &["mean:*"], "uniform").set("analysis.inference.targets", json!(["exact"]));
    let built = study.build(&["inference"]);
    for name in ["bias", "coverage", "width", "resolution", "exact_reference", "median_absolute_bias"] {
        let refused = study.metric(name, &built).unwrap_err();
        assert!(
            refused.contains("`inference.targets` is [\"exact\"]") && refused.contains(name),
            "{refused}"
        );
    }
    assert_eq!(study.metric("posterior", &built).unwrap(), json!({"enabled": false}));
}
