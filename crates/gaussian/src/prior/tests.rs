#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use waycairn_analysis_api::stream;

use super::*;
use crate::problem::Problem;
use crate::settings::{
    Family, Faults, ParametersSettings, PriorDefinition, PriorDefinitions, ProblemSettings, Section as _,
};

/// The prior of a family in one dimension, with options of the mean over the defaults.
fn prior(family: &str, options: Value) -> Result<Prior, Faults> {
    let parameters = ParametersSettings::read(&json!({"mean": options}))?;
    let problem = ProblemSettings::default();
    let resolved = Problem::resolve(&problem, &parameters)?;
    let definition = PriorDefinitions::default();
    Prior::resolve(family, definition.get(family)?, &problem, &parameters, &resolved)
}

/// By Simpson's rule over \[0, 10\].
fn integral(of: impl Fn(f64) -> f64) -> f64 {
    let (intervals, width) = (200_000, 10.0 / 200_000.0);
    let weighted = (0..=intervals).map(|index| {
        let weight = if index == 0 || index == intervals { 1.0 } else { 2.0 + 2.0 * f64::from(index % 2) };
        weight * of(f64::from(index) * width)
    });
    weighted.sum::<f64>() * width / 3.0
}

#[test]
fn gaussian_case_01_continuous_families() {
    // The exact means and, where the specification has it, the standard deviation.
    let families = [
        ("uniform", json!({}), 5.0, Some(10.0 / 12_f64.sqrt())),
        ("normal", json!({}), 5.0, Some(2.595_52)),
        ("exponential", json!({"exponential_rate": 0.1}), 4.180_23, Some(2.816_49)),
        ("exponential", json!({"exponential_rate": -0.1}), 5.819_77, Some(2.816_49)),
        ("exponential", json!({"exponential_rate": 0.0}), 5.0, Some(10.0 / 12_f64.sqrt())),
        ("exponential", json!({"exponential_rate": 10.0}), 0.1, None),
        ("exponential", json!({"exponential_rate": -10.0}), 9.9, None),
    ];
    for (family, options, mean, deviation) in families {
        let prior = prior(family, options.clone()).unwrap();
        let density = |x: f64| prior.log_density(&[x]).unwrap().exp();
        assert!((integral(density) - 1.0).abs() < 1e-8, "{family} {options}");
        let exact = integral(|x| x * density(x));
        assert!((exact - mean).abs() < 1e-5, "{family} {options}: {exact}");
        let spread = integral(|x| (x - exact).powi(2) * density(x)).sqrt();
        assert!(deviation.is_none_or(|deviation| (spread - deviation).abs() < 1e-5), "{family}: {spread}");
        let samples = prior.sample(40_000, &mut stream(0, "test", Some(family))).unwrap();
        let found = samples.iter().map(|x| f64::from(*x)).sum::<f64>() / 4e4;
        assert!((found - mean).abs() < 0.055, "{family} {options}: {found}");
        assert!(samples.iter().all(|x| (0.0..=10.0).contains(x)));
        for outside in [-1.0, 11.0] {
            assert_eq!(prior.log_density(&[outside]).unwrap(), f64::NEG_INFINITY);
        }
        assert_eq!(prior.measure(), Measure::Continuous);
        // The distribution, and not only its mean: the share below a point is the integral up to it.
        let below = samples.iter().filter(|x| **x < 3.0).count() as f64 / 4e4;
        let share = integral(|x| if x < 3.0 { density(x) } else { 0.0 });
        assert!((below - share).abs() < 0.012, "{family} {options}: {below} {share}");
    }
}

#[test]
fn gaussian_case_02_the_normal_family_is_the_truncated_normal() {
    let prior = prior("normal", json!({})).unwrap();
    let expected = [(0.0, -2.849_114_21), (1.0, -2.567_864_21), (5.0, -2.067_864_21), (9.0, -2.567_864_21)];
    for (x, log) in expected {
        assert!((prior.log_density(&[x]).unwrap() - log).abs() < 1e-8, "{x}");
        // By the definition: limits of -1.25 and 1.25.
        let by_definition = log_density(x, 5.0, 4.0) - between(-1.25, 1.25).ln();
        assert!((prior.log_density(&[x]).unwrap() - by_definition).abs() < 1e-13);
    }
    assert!((between(-1.25, 1.25) - 0.788_700_452_7).abs() < 1e-10);
}

#[test]
fn gaussian_case_03_a_lattice_has_mass_on_its_points_alone() {
    let prior = prior("grid", json!({})).unwrap();
    let axes = prior.support_axes();
    let points = axes[0].as_ref().unwrap();
    assert_eq!((points.len(), prior.measure()), (51, Measure::Discrete));
    let masses: f64 = points.iter().map(|x| prior.log_density(&[*x as f32]).unwrap().exp()).sum();
    assert!((masses - 1.0).abs() < 1e-12);
    for off in [0.1, 10.2, -0.2] {
        assert_eq!(prior.log_density(&[off]).unwrap(), f64::NEG_INFINITY);
    }
    let samples = prior.sample(2_000, &mut stream(0, "test", None)).unwrap();
    assert!(samples.iter().all(|x| points.iter().any(|point| *point as f32 == *x)));
    let different = points.iter().filter(|point| samples.contains(&(**point as f32))).count();
    assert_eq!(different, 51);
}

#[test]
fn gaussian_case_04_a_mixed_prior_is_mixed() {
    let settings = json!({"dimension": 2, "infer": ["std:1", "mean:0"], "fixed": {"mean:1": 8.0}});
    let (problem, parameters) = (ProblemSettings::read(&settings).unwrap(), ParametersSettings::default());
    let resolved = Problem::resolve(&problem, &parameters).unwrap();
    let definitions = json!({"mixed": {"family": "uniform", "by_parameter": {"mean:0": "grid"}}});
    let definitions = PriorDefinitions::read(&definitions).unwrap();
    let definition = definitions.get("mixed").unwrap();
    let prior = Prior::resolve("mixed", definition, &problem, &parameters, &resolved).unwrap();
    assert_eq!(prior.measure(), Measure::Mixed);
    let axes = prior.support_axes();
    assert!(axes[0].is_none() && axes[1].as_ref().is_some_and(|points| points.len() == 51));
    let samples = prior.sample(100, &mut stream(0, "test", None)).unwrap();
    assert_eq!((samples.len(), prior.parameters()), (200, 2));
    let logs = prior.log_densities(&samples).unwrap();
    for (log, point) in logs.iter().zip(samples.chunks_exact(2)) {
        assert!((log - (-(3.8_f64.ln()) - 51_f64.ln())).abs() < 1e-12);
        assert_eq!(*log, prior.log_density(point).unwrap());
    }
    assert!(prior.log_density(&[1.0]).is_err());
    // Of one coordinate by itself.
    let lattice = prior.marginal(1).unwrap();
    assert_eq!((lattice.parameters(), lattice.measure()), (1, Measure::Discrete));
    assert!((lattice.log_density(&[0.2]).unwrap() + 51_f64.ln()).abs() < 1e-12);
    assert!((prior.marginal(0).unwrap().log_density(&[1.0]).unwrap() + 3.8_f64.ln()).abs() < 1e-12);
    assert!(prior.marginal(2).unwrap_err().to_string().contains("of a prior with 2"));
}

#[test]
fn gaussian_1_priors_that_are_none_are_told_with_the_option() {
    for (family, options, path) in [
        ("normal", json!({"normal_std": 0.0}), "parameters.mean.normal_std"),
        ("normal", json!({"normal_std": -2.0}), "parameters.mean.normal_std"),
        ("normal", json!({"normal_mean": 1e9}), "parameters.mean.normal_mean"),
        ("exponential", json!({"exponential_rate": 1e308}), "parameters.mean.exponential_rate"),
        ("grid", json!({"grid_step": 0.0}), "parameters.mean.grid_step"),
    ] {
        let faults = prior(family, options.clone()).unwrap_err().to_string();
        assert!(faults.contains(path), "{family} {options}: {faults}");
        // A family does not ask for the options of another one.
        assert!(prior("uniform", options).is_ok());
    }
    let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
    let resolved = Problem::resolve(&problem, &parameters).unwrap();
    let definition = PriorDefinition {
        family: Family::Uniform,
        by_parameter: [("mean:3".to_owned(), Family::Grid)].into(),
    };
    let faults = Prior::resolve("odd", &definition, &problem, &parameters, &resolved).unwrap_err();
    assert!(faults.to_string().contains("priors.odd.by_parameter.mean:3"), "{faults}");
}

#[test]
fn gaussian_2_a_prior_says_of_options_what_its_families_use() {
    let normal = prior("normal", json!({"exponential_rate": 7.0, "grid_step": 0.5})).unwrap();
    let text = serde_json::to_value(&normal).unwrap();
    assert_eq!(text, json!([{"family": "normal", "low": 0.0, "high": 10.0, "mean": 5.0, "std": 4.0}]));
    assert_eq!(Prior::deserialize(text).unwrap(), normal);
}

#[test]
fn steep_and_flat_exponentials_are_stable() {
    for k in [-800.0_f64, -1.0, -1e-5, -1e-7, 1e-7, 1e-5, 1.0, 800.0] {
        let exact = if k.abs() < 1e-3 { (k / 2.0 + k * k / 24.0).max(-1.0) } else { f64::NAN };
        let found = log_mean_exp(k);
        assert!(found.is_finite(), "{k}");
        assert!(exact.is_nan() || (found - exact).abs() < 1e-11, "{k}: {found} {exact}");
    }
    let steep = prior("exponential", json!({"exponential_rate": 100.0})).unwrap();
    let samples = steep.sample(1_000, &mut stream(0, "test", None)).unwrap();
    assert!(samples.iter().all(|x| (0.0..1.0).contains(x)));
}
