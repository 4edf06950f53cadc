//! The exact target over the default design, which no network is part of: what theory says comes out of the metrics.

use serde_json::json;

use crate::kit::Study;

#[test]
fn the_exact_target_of_the_default_design_is_what_theory_says() {
    let mut study = Study::smoke(1, &["mean:*"], "uniform").set("training.model.hidden", json!([4]));
    study.weights = study.drawn_weights();
    let sections = json!({"calibration": {"cases": 2_048}, "inference": {"candidate_count": 4_096}});
    study.analysis = crate::kit::library().resolve_settings(&sections).unwrap();
    let built = study.build(&["inference", "calibration_scores"]);
    let exact = study.metric("exact_reference", &built).unwrap();
    let near = |path: &str, expected: f64, slack: f64| {
        let found = exact.pointer(path).and_then(serde_json::Value::as_f64).unwrap();
        assert!((found - expected).abs() < slack, "{path}: {found}, not {expected} to {slack}");
    };
    assert_eq!(exact["coverage"]["cases"], 1_024);
    assert_eq!(exact["coverage"]["unique_truths"], 41);
    // Standard errors of 0.015 and 0.007: three of them.
    near("/coverage/joint_density/0", 0.68, 0.045);
    near("/coverage/joint_density/1", 0.95, 0.021);
    near("/width/mean/0", 1.016, 0.012);
    near("/width/mean/1", 1.990, 0.02);
    near("/bias/mean_absolute", 0.412, 0.03);
    near("/bias/rmse", 0.515, 0.035);
    near("/bias/mean_signed", 0.0, 0.049);
    let ess = built.f64("inference", "exact_ess");
    let mean = ess.iter().sum::<f64>() / ess.len() as f64 / 4_096.0;
    assert!((0.15..0.19).contains(&mean), "{mean}");
    // The exact posterior is calibrated, and a network that learned nothing is not.
    for name in ["simulation_based_calibration", "tarp"] {
        let found = study.metric(name, &built).unwrap();
        assert_eq!(found["cases"], 2_048);
        let inside = |value: &serde_json::Value| {
            *value == json!(true) || value.as_array().is_some_and(|all| all.iter().all(|one| *one == true))
        };
        assert!(inside(&found["exact_posterior"]["inside"]), "{name}: {found}");
        assert!(!inside(&found["inside"]), "{name}: {found}");
    }
}
