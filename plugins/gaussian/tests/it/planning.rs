//! What is told while a study is planned: costs, refusals, warnings.

use serde_json::{Value, json};

use crate::kit::Study;

/// The profiles of the table, over the defaults of the library.
fn profile(name: &str, p: usize, prior: &str) -> Study {
    let mut study = Study::smoke(p, &["mean:*"], prior);
    let sections = match name {
        "default" => json!({}),
        "paper" => json!({"inference": {
            "truth_design": "size_adaptive", "truth_margin_fraction": 0.0, "align_truths_to_grid": false,
            "native_grid_prior": false, "targets": ["ratio", "exact"],
        }}),
        _ => return study,
    };
    study.analysis = crate::kit::library().resolve_settings(&sections).unwrap();
    study
}

#[test]
fn gaussian_case_29_the_table_of_the_specification_through_the_product() {
    for (name, p, prior, cases, candidates, evaluations, bytes) in [
        ("default", 1, "uniform", 1_024, 16_384, 251_673_600_u64, 1_761_280),
        ("default", 1, "grid", 1_024, 51, 798_720, 389_308),
        ("default", 2, "normal", 2_048, 16_384, 503_347_200, 2_588_672),
        ("default", 2, "grid", 2_048, 2_601, 79_933_440, 1_375_768),
        ("paper", 1, "uniform", 25, 16_384, 6_144_375, 989_840),
        ("paper", 1, "grid", 25, 16_384, 6_144_375, 989_840),
        ("paper", 2, "exponential", 625, 16_384, 153_609_375, 1_308_576),
        ("paper", 2, "grid", 625, 16_384, 153_609_375, 1_308_576),
        ("smoke", 1, "uniform", 7, 256, 26_985, 17_992),
        ("smoke", 1, "grid", 7, 51, 5_460, 5_692),
    ] {
        let study = profile(name, p, prior);
        let found = study.estimate("inference");
        let number = |key: &str| found[key].as_u64().unwrap();
        assert_eq!(
            (
                number("inference_cases"),
                number("candidate_count_upper_bound"),
                number("inference_model_evaluations"),
                number("estimated_inference_bytes"),
            ),
            (cases, candidates, evaluations, bytes),
            "{name} {p} {prior}"
        );
        assert_eq!(study.check("inference").errors, [""; 0], "{name} {p} {prior}");
        let scores = study.estimate("ensemble_scores");
        assert_eq!(scores["model_evaluations"], evaluations);
        assert_eq!(scores["bytes"], (candidates + 1) * cases * 8);
        assert_eq!(
            (number("ensemble_scores_kept"), number("ensemble_score_bytes")),
            (1, (candidates + 1) * cases * 8)
        );
    }
}

#[test]
fn what_is_built_takes_what_was_estimated() {
    let study = Study::smoke(2, &["mean:*", "std:1"], "uniform");
    let built = study.build_all();
    for (name, product) in &built.0 {
        let Some(bytes) = study.estimate(name)["bytes"].as_u64() else { continue };
        let found: usize = product.arrays.values().map(|array| array.bytes().len()).sum();
        assert_eq!(found as u64, bytes, "{name}");
    }
    let training = study.estimate("training");
    assert_eq!(
        (&training["observation_dimension"], &training["inferred_parameters"], &training["network_inputs"]),
        (&json!(2), &json!(3), &json!(5))
    );
    assert_eq!(training["training_rows"], 1_024);
    // Of the specification: pairs times both ends times probes and source samples.
    let default = profile("default", 1, "uniform");
    assert_eq!(default.estimate("verification_predictions")["model_evaluations"], 1_572_864);
}

#[test]
fn calibration_takes_fewer_candidates_than_inference_where_a_sequence_makes_them() {
    // It took as many: half of the time of a study in one dimension.
    let candidates = |study: &Study| {
        let evaluations = study.estimate("calibration_scores")["model_evaluations"].as_u64().unwrap();
        let cases = study.analysis["calibration"]["cases"].as_u64().unwrap();
        assert_eq!(evaluations % (cases * 15), 0);
        evaluations / (cases * 15) - 1
    };
    for (p, prior, expected) in [
        (1, "uniform", 2_048),
        (2, "normal", 8_192),
        (3, "normal", 16_384),
        // Those of the lattice, each; and a sequence over its points where they are too many for that.
        (1, "grid", 51),
        (2, "grid", 2_601),
        (3, "grid", 16_384),
    ] {
        assert_eq!(candidates(&profile("default", p, prior)), expected, "{p} {prior}");
    }
    let design = |value: &str| {
        profile("default", 2, "uniform").set("analysis.inference.candidate_design", value.into())
    };
    assert_eq!(candidates(&design("grid")), 200 * 200);
    // What is planned is what is built.
    let few = Study::smoke(1, &["mean:*"], "uniform").set("analysis.calibration.candidate_count", json!(64));
    assert_eq!(candidates(&few), 64);
    let built = few.build(&["calibration_scores"]);
    let said = &built.product("calibration_scores").metadata;
    assert_eq!((&said["candidate_count"], &said["candidate_design"]), (&json!(64), &json!("sobol")));
    // Never more than the inference.
    let all = Study::smoke(2, &["mean:*"], "uniform");
    assert_eq!(candidates(&all), 256);
}

/// The errors of a product, one setting changed; also those of a selector.
fn refused(name: &str, prior: &str, path: &str, value: Value) -> String {
    let study = Study::smoke(1, &["mean:*"], prior).set(path, value);
    match study.select(name) {
        Err(error) => error,
        Ok(_) => {
            let errors = study.check(name).errors;
            assert_eq!(errors.len(), 1, "{errors:?}");
            errors.into_iter().next().unwrap_or_default()
        }
    }
}

#[test]
fn gaussian_case_29_a_refusal_names_setting_and_value() {
    for (name, prior, path, value, parts) in [
        (
            "inference",
            "uniform",
            "analysis.inference.max_model_evaluations",
            json!(1_000),
            &["26985", "`inference.max_model_evaluations` is 1000"][..],
        ),
        (
            "inference",
            "uniform",
            "analysis.inference.max_saved_bytes",
            json!(2_000),
            &["17992", "`inference.max_saved_bytes` is 2000"],
        ),
        (
            "candidates",
            "uniform",
            "analysis.inference.max_candidate_points",
            json!(100),
            &["`inference.max_candidate_points` is 100", "256"],
        ),
        ("candidates", "uniform", "analysis.inference.candidate_count", json!(65_537), &["65537", "65536"]),
        ("inference", "grid", "analysis.inference.native_grid_prior", json!(false), &["native_grid_prior"]),
        (
            "observations",
            "uniform",
            "analysis.inference.truth_margin_fraction",
            json!(0.5),
            &["`inference.truth_margin_fraction` is 0.5"],
        ),
        (
            "observations",
            "uniform",
            "training.parameters.mean.grid_step",
            json!(20.0),
            &["inference.align_truths_to_grid", "`mean:0` has no point in 1 to 9"],
        ),
        (
            "verification_observations",
            "uniform",
            "training.parameters.mean.grid_step",
            json!(1e-9),
            &["`grid_step` is 0.000000001", "raise it"],
        ),
        (
            "normalization_observations",
            "uniform",
            "training.parameters.mean.grid_step",
            json!(-1.0),
            &["grid_step", "-1"],
        ),
        (
            "calibration_scores",
            "uniform",
            "analysis.inference.max_model_evaluations",
            json!(30_000),
            &[
                "154200",
                "`inference.max_model_evaluations` is 30000",
                "`calibration.cases` (it is 40)",
                "`calibration.candidate_count` (it is 2048, which makes 256 candidates)",
            ],
        ),
        (
            "calibration_scores",
            "uniform",
            "analysis.calibration.candidate_count",
            json!(65_537),
            &["`calibration.candidate_count` is 65537", "1 to 65536"],
        ),
        (
            "calibration_scores",
            "uniform",
            "analysis.inference.candidate_count",
            json!(65_537),
            &["`inference.candidate_count`", "65537"],
        ),
        (
            "calibration_scores",
            "grid",
            "analysis.inference.native_grid_prior",
            json!(false),
            &["native_grid_prior", "`tarp`"],
        ),
        (
            "training",
            "uniform",
            "training.data.train_size",
            json!(4_000_000_000_u64),
            &["`data.train_size` is 4000000000"],
        ),
        (
            "verification_observations",
            "uniform",
            "analysis.verification.target_samples",
            json!(1_u64 << 40),
            &["`verification.target_samples` is 1099511627776"],
        ),
        (
            "normalization_observations",
            "uniform",
            "analysis.verification.marginal_samples",
            json!(1_u64 << 40),
            &["`verification.marginal_samples` is 1099511627776"],
        ),
        (
            "calibration_observations",
            "uniform",
            "analysis.calibration.cases",
            json!(1_u64 << 40),
            &["`calibration.cases` is 1099511627776"],
        ),
        (
            "observations",
            "uniform",
            "analysis.inference.observations",
            json!(1_u64 << 40),
            &["`inference.observations` is 1099511627776"],
        ),
        (
            "showcase_observations",
            "uniform",
            "analysis.showcase.samples",
            json!(100_000_000_000_u64),
            &["`inference.max_saved_bytes` is 8000000000", "`showcase.samples` is 100000000000"],
        ),
        (
            "calibration_scores",
            "uniform",
            "analysis.calibration.cases",
            json!(1_000_000_000_u64),
            &["`inference.max_saved_bytes`", "`calibration.cases` is 1000000000"],
        ),
        ("candidates", "uniform", "analysis.plotting.dpi", json!(0), &["`plotting.dpi` is 0", "10 to 2400"]),
        (
            "candidates",
            "uniform",
            "analysis.showcase.bins",
            json!(1_000_000_000),
            &["`showcase.bins` is 1000000000"],
        ),
        (
            "candidates",
            "uniform",
            "training.parameters.mean",
            json!({"low": 1e8, "high": 100_000_001}),
            &["`parameters.mean.high` is 100000001", "32-bit floats"],
        ),
        ("training", "uniform", "training.data.train_size", json!(7), &["`data.train_size` is 7", "even"]),
        ("training", "uniform", "training.prior", json!("flat"), &["\"flat\"", "uniform"]),
        ("training", "uniform", "training.seed", json!(-1), &["`seed` is -1"]),
        ("inference", "uniform", "analysis.inference.levels", json!([1.5]), &["`inference.levels` is [1.5]"]),
        ("test_predictions", "uniform", "training.model.activation", json!("sine"), &["`model` is", "sine"]),
        (
            "showcase_predictions",
            "uniform",
            "training.training.evaluation_batch_size",
            json!(0),
            &["`training.evaluation_batch_size` is 0"],
        ),
    ] {
        let found = refused(name, prior, path, value);
        for part in parts {
            assert!(found.contains(part), "{name} {path}: {found}");
        }
    }
    let study = Study::smoke(1, &["mean:*"], "uniform");
    let study = study.set("analysis.verification.pair_design", "sobol".into());
    let errors =
        study.set("analysis.verification.pairs", json!(40_000)).check("verification_observations").errors;
    assert!(errors[0].contains("`verification.pairs` is 40000"), "{errors:?}");
}

#[test]
fn a_number_that_is_none_is_told_before_a_study_is_planned() {
    // As a settings file comes that has `nan` there; it was told as null.
    for (section, path) in [
        (json!({"inference": {"truth_margin_fraction": f64::NAN}}), "`inference.truth_margin_fraction`"),
        (json!({"calibration": {"levels": [0.5, f64::NAN]}}), "`calibration.levels[1]`"),
    ] {
        let error = crate::kit::library().resolve_settings(&section).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("must be a number, not NaN or infinite"), "{error}");
    }
}

#[test]
fn a_metric_or_plot_of_the_ratio_is_refused_while_the_study_is_planned() {
    let exact = |metrics: &[&str], plots: &[&str]| {
        let study = Study::smoke(1, &["mean:*"], "uniform").wanting(metrics, plots);
        study.set("analysis.inference.targets", json!(["exact"])).check("inference").errors
    };
    let errors = exact(&["coverage", "posterior", "median_absolute_bias"], &["prior", "inference"]);
    assert!(errors.len() == 1 && errors[0].contains("`inference.targets` is [\"exact\"]"), "{errors:?}");
    assert!(errors[0].contains("coverage, median_absolute_bias, inference need"), "{errors:?}");
    assert_eq!(exact(&["posterior"], &["prior"]), [""; 0]);
}

#[test]
fn gaussian_case_18_numbers_beyond_all_are_refused_and_no_error_of_arithmetic() {
    let study = Study::smoke(60, &["mean:*"], "uniform");
    let errors = study.check("observations").errors;
    assert!(errors[0].contains("inference.truth_points_per_axis"), "{errors:?}");
    let errors = study.check("inference").errors;
    assert!(errors.iter().any(|error| error.contains("inference.max_model_evaluations")), "{errors:?}");
    // What stands in a recipe is a number that a recipe can hold.
    assert_eq!(study.estimate("inference")["inference_cases"], (1_u64 << 53) - 1);
}

#[test]
fn what_should_be_known_is_said_once() {
    let study = profile("default", 2, "uniform");
    let said = |name: &str| study.check(name).warnings;
    assert_eq!((said("inference").len(), said("observations").len()), (0, 1));
    assert!(said("observations")[0].contains("lattices"));
    let five = profile("paper", 5, "uniform");
    assert!(five.check("observations").warnings[0].contains("Sobol sequence"));
    assert!(five.check("candidates").warnings[0].contains("100^5"));
    let streamed =
        Study::smoke(1, &["mean:*"], "uniform").set("analysis.inference.max_score_bytes", json!(100));
    assert!(streamed.check("inference").warnings[0].contains("inference.max_score_bytes"));
    assert_eq!(streamed.estimate("ensemble_scores"), json!({"model_evaluations": 0, "bytes": 0}));
}

#[test]
fn a_study_of_another_experiment_is_told_what_is_missing() {
    let mut study = Study::smoke(1, &["mean:*"], "uniform");
    study.training = json!({"seed": 0, "data": {"context": 3}});
    let refused = study.select("observations").unwrap_err();
    assert!(refused.contains("no setting `problem`") && refused.contains("`nre`"), "{refused}");
}
