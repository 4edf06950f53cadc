//! What each product holds: names, element types, shapes, and what is said about it.

use waycairn_analysis_host::DType;

use crate::kit::{Built, Stored, Study};

const F32: DType = DType::F32;
const F64: DType = DType::F64;

/// Checks that a product holds exactly these arrays, and says at least these words about itself.
fn holds(product: &Stored, arrays: &[(&str, DType, &[usize])], said: &[&str]) {
    let found: Vec<(&str, DType, &[usize])> =
        product.arrays.iter().map(|(name, array)| (name.as_str(), array.dtype, &array.shape[..])).collect();
    let mut expected = arrays.to_vec();
    expected.sort_unstable_by_key(|(name, ..)| *name);
    assert_eq!(found, expected);
    for key in said {
        assert!(product.metadata.contains_key(*key), "{key}: {:?}", product.metadata.keys());
    }
    for array in product.arrays.values().filter(|array| array.dtype == F32) {
        assert!(bytemuck::cast_slice::<u8, f32>(array.bytes()).iter().all(|value| value.is_finite()));
    }
}

/// Checks all products of a smoke study: d coordinates, p parameters, N cases, K candidates.
fn all_hold(built: &Built, d: usize, p: usize, n: usize, k: usize) {
    let splits: Vec<(String, Vec<usize>)> = [("train", 1024), ("validation", 256), ("test", 256)]
        .into_iter()
        .flat_map(|(split, rows)| {
            [("x", vec![rows, d]), ("theta", vec![rows, p]), ("y", vec![rows])]
                .map(|(part, shape)| (format!("{split}_{part}"), shape))
        })
        .collect();
    let splits: Vec<(&str, DType, &[usize])> =
        splits.iter().map(|(name, shape)| (name.as_str(), F32, &shape[..])).collect();
    holds(
        built.product("training"),
        &splits,
        &["parameters", "class_one", "class_zero", "split_policy", "prior_measure"],
    );
    holds(
        built.product("observations"),
        &[("truth", F32, &[n, p]), ("observations", F32, &[n, 15, d])],
        &[
            "parameters",
            "truth_design_requested",
            "truth_design_actual",
            "truths_before_repeats",
            "unique_truths",
            "cases",
            "observations_per_case",
            "truths_aligned_to_grid",
            "shared_across_priors_and_training_replicas",
        ],
    );
    holds(
        built.product("candidates"),
        &[("theta", F32, &[k, p]), ("log_measure", F64, &[k])],
        &[
            "design",
            "requested_count",
            "actual_count",
            "base_measure",
            "parameters",
            "native_discrete_support",
            "approximation",
        ],
    );
    let scores: &[(&str, DType, &[usize])] = &[("log_score", F64, &[n, k]), ("truth_log_score", F64, &[n])];
    holds(built.product("ensemble_scores"), scores, &["scores"]);
    let shapes: [(&str, Vec<usize>); 9] = [
        ("mode", vec![n, p]),
        ("lower", vec![n, 2, p]),
        ("upper", vec![n, 2, p]),
        ("threshold", vec![n, 2]),
        ("enclosed_mass", vec![n, 2]),
        ("ess", vec![n]),
        ("log_normalizer", vec![n]),
        ("joint_contains_truth", vec![n, 2]),
        ("log_score", vec![2, k]),
    ];
    let of_targets: Vec<(String, &Vec<usize>)> = ["ratio", "posterior", "exact"]
        .into_iter()
        .flat_map(|target| shapes.iter().map(move |(name, shape)| (format!("{target}_{name}"), shape)))
        .collect();
    let mut arrays: Vec<(&str, DType, &[usize])> =
        of_targets.iter().map(|(name, shape)| (name.as_str(), F64, &shape[..])).collect();
    arrays.push(("retained_cases", DType::I64, &[2]));
    holds(
        built.product("inference"),
        &arrays,
        &[
            "levels",
            "targets",
            "cases",
            "parameters",
            "candidate_count",
            "base_measure",
            "hld",
            "coverage",
            "posterior_prior_power",
            "retention",
            "exact_target",
        ],
    );
    holds(
        built.product("test_predictions"),
        &[("logits", F64, &[256]), ("labels", F32, &[256])],
        &["split", "count"],
    );
    holds(
        built.product("verification_observations"),
        &[
            ("pairs", F64, &[4, 2, p]),
            ("probe_x", F32, &[4, 64, d]),
            ("exact_probe_log_ratio", F64, &[4, 64]),
            ("source_x", F32, &[4, 64, d]),
            ("target_x", F32, &[4, 64, d]),
            ("directions", F64, &[4, d]),
        ],
        &[
            "ratio_orientation",
            "pairs",
            "shared_across_priors_and_training_replicas",
            "theta_design",
            "grid_step_source",
        ],
    );
    holds(
        built.product("verification_predictions"),
        &[
            ("probe_log_ratio", F64, &[4, 64]),
            ("probe_exact_log_ratio", F64, &[4, 64]),
            ("source_log_ratio", F64, &[4, 64]),
            ("source_exact_log_ratio", F64, &[4, 64]),
        ],
        &["pairs", "ratio_orientation"],
    );
    let distances: Vec<(&str, DType, &[usize])> =
        ["learned_w1", "exact_w1", "unweighted_w1", "ess", "exact_ess"]
            .map(|name| (name, F64, &[4][..]))
            .into();
    holds(built.product("reweighting_distances"), &distances, &["distance", "source_samples_per_pair"]);
    holds(
        built.product("normalization_observations"),
        &[("x", F32, &[128, d]), ("theta", F32, &[4, p])],
        &["distribution", "expected_ratio_mean"],
    );
    holds(
        built.product("normalization_predictions"),
        &[("log_ratio", F64, &[4, 128])],
        &["expected_ratio_mean", "samples", "theta_count"],
    );
    holds(
        built.product("showcase_observations"),
        &[("theta", F64, &[2, p]), ("source", F32, &[256, d]), ("target", F32, &[256, d])],
        &["orientation", "parameters"],
    );
    holds(built.product("showcase_predictions"), &[("log_ratio", F64, &[256])], &["source_samples"]);
    holds(
        built.product("calibration_observations"),
        &[
            ("truth", F32, &[40, p]),
            ("observations", F32, &[40, 15, d]),
            ("rank_split", F64, &[40, p]),
            ("reference", F64, &[40, p]),
            ("reference_split", F64, &[40]),
        ],
        &["parameters", "cases", "observations_per_case", "reference_distribution", "prior_measure"],
    );
    holds(
        built.product("calibration_scores"),
        &[
            ("rank_share", F64, &[40, p]),
            ("nearer_mass", F64, &[40]),
            ("exact_rank_share", F64, &[40, p]),
            ("exact_nearer_mass", F64, &[40]),
        ],
        &["cases", "parameters", "candidate_count", "candidate_design", "rank_share", "nearer_mass"],
    );
}

#[test]
fn all_products_of_one_mean() {
    let study = Study::smoke(1, &["mean:*"], "uniform");
    let built = study.build_all();
    all_hold(&built, 1, 1, 7, 256);
    let observations = built.product("observations");
    // Calculated for the specification.
    let truth = built.f32("observations", "truth");
    for (found, expected) in truth.iter().zip([1.0, 2.4, 3.6, 5.0, 6.4, 7.6, 9.0]) {
        assert!((found - expected).abs() < 1e-6, "{truth:?}");
    }
    assert_eq!(
        (&observations.metadata["cases"], &observations.metadata["unique_truths"]),
        (&7.into(), &7.into())
    );
    assert_eq!(built.product("training").metadata["class_one"], "joint");
    assert_eq!(built.product("training").metadata["prior_measure"], "continuous");
    assert_eq!(built.product("candidates").metadata["design"], "sobol");
    assert_eq!(built.product("ensemble_scores").metadata["scores"], "kept");
    let theta = built.f32("normalization_observations", "theta");
    for (found, index) in theta.iter().zip([0.0, 17.0, 33.0, 50.0]) {
        assert!((found - 0.2 * index).abs() < 1e-5, "{theta:?}");
    }
    let showcase = built.f64("showcase_observations", "theta");
    assert_eq!(showcase, [3.0, 7.0]);
    assert_ne!(built.f32("showcase_observations", "source"), built.f32("showcase_observations", "target"));
    let said = |name: &str, key: &str| built.product(name).metadata[key].clone();
    assert_eq!(said("inference", "targets"), serde_json::json!(["ratio", "posterior", "exact"]));
    assert_eq!(said("inference", "posterior_prior_power"), 1);
    assert_eq!(said("verification_observations", "ratio_orientation"), "theta1 over theta0");
}

#[test]
fn all_products_of_one_mean_on_a_lattice() {
    let built = Study::smoke(1, &["mean:*"], "grid").build_all();
    all_hold(&built, 1, 1, 7, 51);
    assert_eq!(built.product("candidates").metadata["design"], "native-exact");
    assert_eq!(built.product("inference").metadata["base_measure"], "counting");
    // Every truth of the calibration is a candidate, so its own mass is split.
    let candidates = built.f32("candidates", "theta");
    assert!(built.f32("calibration_observations", "truth").iter().all(|truth| candidates.contains(truth)));
}

#[test]
fn gaussian_case_17_all_products_of_two_means_and_a_deviation() {
    let built = Study::smoke(2, &["mean:*", "std:1"], "normal").build_all();
    all_hold(&built, 2, 3, 343, 256);
    assert_eq!(
        built.product("training").metadata["parameters"],
        serde_json::json!(["mean:0", "mean:1", "std:1"])
    );
    let truth = built.f32("observations", "truth");
    assert!(truth.chunks_exact(3).all(|point| point[2] > 0.0));
}

#[test]
fn all_products_of_a_residual_network_and_a_prior_of_two_families() {
    let mut study = Study::smoke(2, &["mean:*"], "odd").set("training.model.kind", "residual".into());
    study.weights = study.drawn_weights();
    let built = study.build_all();
    all_hold(&built, 2, 2, 49, 256);
    assert_eq!(built.product("candidates").metadata["base_measure"], "mixed");
    assert_eq!(built.product("training").metadata["prior_measure"], "mixed");
}

#[test]
fn gaussian_case_22_uniform_pairs_and_points_off_the_lattice() {
    let study = Study::smoke(1, &["mean:*"], "uniform")
        .set("analysis.verification.pair_design", "uniform".into())
        .set("analysis.verification.normalization_on_grid", false.into())
        .set("analysis.inference.targets", serde_json::json!(["ratio"]));
    let built = study.build(&["verification_predictions", "normalization_predictions", "inference"]);
    assert_eq!(built.f32("normalization_observations", "theta")[1], (10.0_f64 / 3.0) as f32);
    assert!(built.product("inference").arrays.keys().all(|name| !name.starts_with("posterior_")));
    for name in ["posterior", "exact_reference"] {
        assert_eq!(study.metric(name, &built).unwrap(), serde_json::json!({"enabled": false}));
    }
}

#[test]
fn gaussian_study_1_the_training_data_are_those_that_the_experiment_draws() {
    use waycairn_analysis_api::stream;
    use waycairn_gaussian::settings::{ParametersSettings, PriorDefinitions, ProblemSettings, Section as _};
    use waycairn_gaussian::{Prior, Problem, SplitSizes, TrainingData};

    // Numbers of 17 digits: they cross as text, and are the same ones on the other side.
    for high in [10.0, 9.300_000_000_000_002, 0.1 + 0.7, 29.0 / 3.0] {
        let study = Study::smoke(1, &["mean:*"], "exponential")
            .set("training.parameters.mean.high", high.into())
            .set("training.parameters.mean.grid_step", 0.05.into())
            .set("training.seed", 3.into());
        let settings = ProblemSettings::read(&study.training["problem"]).unwrap();
        let parameters = ParametersSettings::read(&study.training["parameters"]).unwrap();
        let problem = Problem::resolve(&settings, &parameters).unwrap();
        let definitions = PriorDefinitions::default();
        let definition = definitions.get("exponential").unwrap();
        let prior = Prior::resolve("exponential", definition, &settings, &parameters, &problem).unwrap();
        let sizes = SplitSizes { train: 1_024, validation: 256, test: 256 };
        let drawn =
            TrainingData::draw(&problem, &prior, sizes, |split| stream(3, split, Some("exponential")))
                .unwrap();
        let built = study.build(&["training"]);
        for (split, pairs) in
            [("train", &drawn.train), ("validation", &drawn.validation), ("test", &drawn.test)]
        {
            let array = |part: &str| built.f32("training", &format!("{split}_{part}"));
            assert_eq!(
                (array("x"), array("theta"), array("y")),
                (&pairs.x[..], &pairs.theta[..], &pairs.label[..])
            );
        }
    }
}
