//! What is selected of the settings: so what a change builds again, and what it does not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kit::{Study, library};

fn smoke(prior: &str) -> Study {
    Study::smoke(1, &["mean:*"], prior)
}

/// The products whose selection a change of one setting changes.
fn changed(path: &str, value: Value) -> Vec<String> {
    let (before, after) = (smoke("uniform").selections(), smoke("uniform").set(path, value).selections());
    before.into_iter().filter(|(name, selected)| after[name] != *selected).map(|(name, _)| name).collect()
}

#[test]
fn a_change_of_levels_or_of_what_is_retained_is_of_the_summary_alone() {
    for (path, value) in [
        ("analysis.inference.levels", json!([0.5])),
        ("analysis.inference.diagnostic_cases", json!(1)),
        ("analysis.inference.retain", json!("full")),
        ("analysis.inference.targets", json!(["ratio", "exact"])),
    ] {
        assert_eq!(changed(path, value), ["inference"], "{path}");
    }
}

#[test]
fn a_field_of_verification_is_of_what_reads_it_alone() {
    for (path, value, expected) in [
        ("pairs", json!(5), &["verification_observations", "verification_predictions"][..]),
        ("target_samples", json!(65), &["verification_observations"]),
        ("directions", json!(5), &["verification_observations"]),
        ("marginal_samples", json!(64), &["normalization_observations", "normalization_predictions"]),
        ("normalization_design", json!("prior"), &["normalization_observations"]),
        (
            "seed",
            json!(1),
            &["normalization_observations", "showcase_observations", "verification_observations"],
        ),
    ] {
        assert_eq!(changed(&format!("analysis.verification.{path}"), value), expected, "{path}");
    }
    assert_eq!(
        changed("analysis.showcase.samples", json!(128)),
        ["showcase_observations", "showcase_predictions"]
    );
    assert_eq!(changed("analysis.showcase.bins", json!(31)), [""; 0]);
    assert_eq!(changed("analysis.plotting.dpi", json!(70)), [""; 0]);
    assert_eq!(
        changed("analysis.calibration.cases", json!(41)),
        ["calibration_observations", "calibration_scores"]
    );
    assert_eq!(changed("analysis.calibration.candidate_count", json!(128)), ["calibration_scores"]);
    // A lattice is taken whole, whatever the count; and the inference's count is of calibration where that is not below it.
    let calibration = |prior: &str, path: &str, count: u64| {
        smoke(prior).set(path, json!(count)).select("calibration_scores").unwrap()
    };
    let own = "analysis.calibration.candidate_count";
    assert_eq!(calibration("grid", own, 2_048), calibration("grid", own, 16));
    let inference = "analysis.inference.candidate_count";
    assert_eq!(calibration("uniform", inference, 4_096), calibration("uniform", inference, 8_192));
    assert_ne!(calibration("uniform", inference, 1_024), calibration("uniform", inference, 8_192));
    for (path, value) in [("band_probability", json!(0.9)), ("levels", json!([0.5]))] {
        assert_eq!(changed(&format!("analysis.calibration.{path}"), value), [""; 0], "{path}");
    }
}

#[test]
fn gaussian_case_16_how_a_model_learns_is_of_no_selection() {
    for (path, value) in [
        ("training.training.learning_rate", json!(0.01)),
        ("training.training.epochs", json!(7)),
        ("training.model.dropout", json!(0.5)),
    ] {
        assert_eq!(changed(path, value), [""; 0], "{path}: the model's own key says it");
    }
    // The architecture is of whatever runs the model, and of no data.
    let wider = changed("training.model.hidden", json!([32, 64]));
    for name in wider {
        let product = library().products().iter().find(|product| product.declaration().name == name).unwrap();
        assert!(product.declaration().model, "{name}");
    }
    assert_eq!(changed("training.data.train_size", json!(512)), ["training"]);
    // Of a residual network, the width, and not what an mlp has.
    let residual = |path, value| {
        let study = smoke("uniform").set("training.model.kind", "residual".into());
        (
            study.select("test_predictions").unwrap(),
            study.set(path, value).select("test_predictions").unwrap(),
        )
    };
    let (before, after) = residual("training.model.hidden", json!([1]));
    assert_eq!(before, after);
    let (before, after) = residual("training.model.width", json!(7));
    assert_ne!(before, after);
}

#[test]
fn no_limit_is_in_a_key_but_that_of_the_candidates() {
    for path in ["max_model_evaluations", "max_saved_bytes", "max_score_bytes"] {
        assert_eq!(changed(&format!("analysis.inference.{path}"), json!(999_999_999)), [""; 0], "{path}");
    }
    let candidates = changed("analysis.inference.max_candidate_points", json!(999_999));
    assert_eq!(candidates, ["candidates"]);
    // Where scores no longer fit, they are no product, and the summary computes them.
    assert_eq!(changed("analysis.inference.max_score_bytes", json!(10)), ["ensemble_scores", "inference"]);
}

#[test]
fn a_shape_of_a_prior_is_of_what_draws_from_that_prior() {
    let shape = "training.parameters.mean.normal_std";
    assert_eq!(changed(shape, json!(3.0)), [""; 0], "the prior is uniform");
    let (before, after) = (smoke("normal").selections(), smoke("normal").set(shape, json!(3.0)).selections());
    let found: Vec<&str> =
        before.keys().filter(|name| before[*name] != after[*name]).map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "calibration_observations",
            "calibration_scores",
            "inference",
            "normalization_observations",
            "training"
        ]
    );
    // And of the posterior only where that is a target.
    let ratio = |std: f64| {
        let study = smoke("normal").set("analysis.inference.targets", json!(["ratio"]));
        study.set(shape, json!(std)).select("inference").unwrap()
    };
    assert_eq!(ratio(4.0), ratio(3.0));
    // Definitions of other priors are nobody's.
    assert_eq!(changed("training.priors.odd.family", json!("exponential")), [""; 0]);
}

#[test]
fn gaussian_case_14_four_priors_share_observations_and_have_two_sets_of_candidates() {
    let distinct = |name: &str| {
        let all = ["uniform", "normal", "exponential", "grid"]
            .map(|prior| smoke(prior).select(name).unwrap().to_string());
        all.into_iter().collect::<BTreeSet<String>>().len()
    };
    for (name, expected) in [
        ("observations", 1),
        ("verification_observations", 1),
        ("showcase_observations", 1),
        ("candidates", 2),
        ("training", 4),
        ("normalization_observations", 4),
        ("calibration_observations", 4),
    ] {
        assert_eq!(distinct(name), expected, "{name}");
    }
    // The paper's profile has no native lattices.
    let paper = |prior| {
        smoke(prior).set("analysis.inference.native_grid_prior", false.into()).select("candidates").unwrap()
    };
    assert_eq!(paper("uniform"), paper("grid"));
}

#[test]
fn replicas_draw_apart_and_share_what_needs_no_model() {
    let first = smoke("uniform");
    // As a study makes a replica: another name, and the next seed.
    let second = Study { member: "uniform-r1".to_owned(), ..first.clone() }.set("training.seed", json!(1));
    let (first, second) = (first.selections(), second.selections());
    let found: Vec<&str> =
        first.keys().filter(|name| first[*name] != second[*name]).map(String::as_str).collect();
    assert_eq!(found, ["normalization_observations", "training"]);
    assert_eq!((&second["training"]["name"], &second["training"]["seed"]), (&json!("uniform"), &json!(1)));
}

#[test]
fn nothing_is_selected_for_the_distances_and_what_runs_a_model_depends_on_the_device() {
    assert_eq!(smoke("uniform").select("reweighting_distances").unwrap(), json!({}));
    for product in library().products() {
        let declared = product.declaration();
        assert_eq!(declared.model, declared.backend, "{}", declared.name);
        assert!(!declared.sources.is_empty() && declared.functions.is_empty(), "{}", declared.name);
    }
}

#[cfg(feature = "check")]
#[test]
fn every_list_of_sources_holds_what_its_files_import() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let lists = library()
        .products()
        .iter()
        .map(|product| (&product.declaration().name, &product.declaration().sources))
        .chain(
            library()
                .analyses()
                .iter()
                .map(|known| (&known.declaration().name, &known.declaration().sources)),
        );
    for (name, sources) in lists {
        let own = concat!(env!("CARGO_PKG_NAME"), "/");
        let files: Vec<&str> = sources.keys().filter_map(|file| file.strip_prefix(own)).collect();
        assert!(!files.is_empty(), "{name}");
        let missing = waycairn_cache::undeclared(folder, &files).unwrap();
        assert!(missing.is_empty(), "{name} lacks {missing:#?}");
    }
}
