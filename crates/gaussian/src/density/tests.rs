#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::normal::inverse;

fn of(theta: &[f32], scores: &[f64], measure: &[f64], levels: &[f64]) -> Result<Density, GaussianError> {
    Summary::new(theta, measure, levels)?.of(scores)
}

#[test]
fn gaussian_case_08_a_normal_density_has_the_widths_of_its_quantiles() {
    let std = 2.0 / 15_f64.sqrt();
    let theta: Vec<f32> = (0..20_001).map(|i| (f64::from(i) * 5e-4) as f32).collect();
    let scores: Vec<f64> = theta.iter().map(|t| crate::log_density(f64::from(*t), 5.0, std)).collect();
    let measure = vec![5e-4_f64.ln(); theta.len()];
    let density = of(&theta, &scores, &measure, &[0.68, 0.95]).unwrap();
    assert_eq!(theta[density.mode], 5.0);
    for (index, tail) in [0.84, 0.975].into_iter().enumerate() {
        let width = f64::from(density.upper[index] - density.lower[index]);
        assert!((width - 2.0 * inverse(tail) * std).abs() < 0.002, "{width}");
    }
    // Calculated for the specification.
    assert!((f64::from(density.upper[0] - density.lower[0]) - 1.027_07).abs() < 0.002);
    assert!((f64::from(density.upper[1] - density.lower[1]) - 2.024_24).abs() < 0.002);
    assert!(density.enclosed_mass[0] >= 0.68 && density.enclosed_mass[1] >= 0.95);
    assert!(density.log_normalizer.abs() < 1e-6);
    // 1 / integral of p^2 = 2 sqrt(pi) std: a share of 0.183 of a uniform design on [0, 10].
    assert!((density.ess / 20_001.0 - 0.183).abs() < 0.001, "{}", density.ess);
}

#[test]
fn gaussian_case_09_density_ranks_and_mass_counts() {
    let (scores, measure) = ([2_f64.ln(), 0.0], [0.001_f64.ln(), 100_f64.ln()]);
    let density = of(&[0.0, 1.0], &scores, &measure, &[0.5]).unwrap();
    assert_eq!((density.mode, &density.lower[..], &density.upper[..]), (0, &[0.0][..], &[1.0][..]));
    let flat = of(&[0.0, 1.0, 2.0, 3.0], &[7.0; 4], &[0.0; 4], &[0.2, 1.0]).unwrap();
    assert_eq!(flat.enclosed_mass, [1.0, 1.0]);
    assert!((flat.ess - 4.0).abs() < 1e-12);
    assert_eq!(flat.mode, 0);
}

#[test]
fn gaussian_case_10_scores_without_a_density_are_refused() {
    for scores in [[f64::NAN, 0.0], [f64::INFINITY, 0.0], [f64::NEG_INFINITY; 2]] {
        assert!(of(&[0.0, 1.0], &scores, &[0.0; 2], &[0.5]).is_err(), "{scores:?}");
    }
    let some = of(&[0.0, 1.0], &[f64::NEG_INFINITY, 0.0], &[0.0; 2], &[0.5, 1.0]).unwrap();
    assert_eq!((some.mode, &some.lower[..], &some.upper[..]), (1, &[1.0, 1.0][..], &[1.0, 1.0][..]));
    // Shapes, levels, what is not finite, nothing.
    assert!(of(&[0.0, 1.0, 2.0], &[0.0; 2], &[0.0; 2], &[0.5]).is_err());
    assert!(of(&[0.0, 1.0], &[0.0; 3], &[0.0; 2], &[0.5]).is_err());
    assert!(of(&[], &[], &[], &[0.5]).is_err());
    for level in [0.0, 1.1, -0.5, f64::NAN] {
        assert!(of(&[0.0, 1.0], &[0.0; 2], &[0.0; 2], &[level]).is_err(), "{level}");
    }
    assert!(of(&[0.0, f32::NAN], &[0.0; 2], &[0.0; 2], &[0.5]).is_err());
    assert!(of(&[0.0, 1.0], &[0.0; 2], &[0.0, f64::NEG_INFINITY], &[0.5]).is_err());
}

#[test]
fn gaussian_case_11_large_scores_have_finite_masses() {
    let masses = normalized_mass(&[10_000.0, 10_001.0, -10_000.0], &[0.0; 3]).unwrap().mass;
    assert!(masses.iter().all(|mass| mass.is_finite()));
    assert!((masses.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!((masses[1] / masses[0] - std::f64::consts::E).abs() < 1e-9);
}

#[test]
fn the_example_of_the_specification() {
    let scores = [1.0_f64, 4.0, 3.0, 2.0].map(f64::ln);
    let masses = normalized_mass(&scores, &[0.0; 4]).unwrap();
    for (found, expected) in masses.mass.iter().zip([0.1, 0.4, 0.3, 0.2]) {
        assert!((found - expected).abs() < 1e-12);
    }
    let density = of(&[0.0, 1.0, 2.0, 3.0], &scores, &[0.0; 4], &[0.4, 0.68]).unwrap();
    assert!((density.ess - 3.333_333_333).abs() < 1e-8);
    assert!((density.log_normalizer - 10_f64.ln()).abs() < 1e-12);
    assert_eq!((density.mode, &density.upper[1..]), (1, &[2.0][..]));
}

#[test]
fn gaussian_case_26_ties_are_in_whole_and_membership_is_by_index() {
    // Scores of 1 are the edge at 0.5, and all three of them are in.
    let (theta, scores) = ([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 1.0, -3.0]);
    let density = of(&theta, &scores, &[0.0; 5], &[0.5]).unwrap();
    assert_eq!((density.threshold[0], density.lower[0], density.upper[0]), (1.0, 0.0, 3.0));

    // The truth is a candidate at the very edge, and its score by another route is a little less.
    let summary = Summary::new(&theta, &[0.0; 5], &[0.5]).unwrap();
    let cases = |membership: Option<usize>| {
        let found = summary.cases(&[membership], |_, row| {
            row.copy_from_slice(&scores);
            Ok::<_, GaussianError>(1.0 - 1e-15)
        });
        found.unwrap().joint_contains_truth[0]
    };
    assert_eq!((cases(Some(3)), cases(None), cases(Some(4))), (1.0, 0.0, 0.0));
    let outside = summary.cases(&[Some(9)], |_, row| {
        row.fill(0.0);
        Ok::<_, GaussianError>(0.0)
    });
    assert!(outside.is_err());
}

#[test]
fn gaussian_case_26_on_a_lattice_projection_and_membership_agree_in_one_dimension() {
    let theta: Vec<f32> = (0..51).map(|i| (0.2 * f64::from(i)) as f32).collect();
    let (measure, levels) = (vec![0.0; 51], [0.3, 0.68, 0.95, 1.0]);
    let summary = Summary::new(&theta, &measure, &levels).unwrap();
    let truths: Vec<Option<usize>> = (0..51).map(Some).collect();
    // A density with one top, at a place between points, for each truth another one.
    let summaries = summary
        .cases(&truths, |case, row| {
            let top = 5.0 + (case as f64 * 0.37).sin() * 4.0;
            for (score, theta) in row.iter_mut().zip(&theta) {
                *score = -(f64::from(*theta) - top).powi(2);
            }
            Ok::<_, GaussianError>(f64::NEG_INFINITY)
        })
        .unwrap();
    for (case, truth) in theta.iter().map(|theta| f64::from(*theta)).enumerate() {
        for level in 0..4 {
            let at = case * 4 + level;
            let inside = summaries.lower[at] <= truth && truth <= summaries.upper[at];
            assert_eq!(summaries.joint_contains_truth[at], f64::from(u8::from(inside)), "{case} {level}");
        }
    }
}

#[test]
fn gaussian_case_28_masses_of_retained_scores_are_those_of_the_summary() {
    let theta: Vec<f32> = (0..200).map(|i| i as f32 * 0.05).collect();
    let measure: Vec<f64> = (0..200).map(|i| -3.0 + (f64::from(i) * 0.1).cos()).collect();
    let score = |case: usize, k: usize| -((k as f64 * 0.05 - case as f64 * 0.1).powi(2)) * 3.0 - 1e4;
    let summary = Summary::new(&theta, &measure, &[0.68]).unwrap();
    let fill = |case: usize, row: &mut [f64]| {
        row.iter_mut().enumerate().for_each(|(k, value)| *value = score(case, k));
        Ok::<_, GaussianError>(score(case, 7))
    };
    let all = summary.cases(&vec![None; 90], fill).unwrap();
    for case in retained_cases(90, 7) {
        let row: Vec<f64> = (0..200).map(|k| score(case, k)).collect();
        let masses = normalized_mass(&row, &measure).unwrap();
        assert!((masses.mass.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(masses.log_normalizer, all.log_normalizer[case]);
        let again = summary.of(&row).unwrap();
        assert_eq!((again.ess, again.threshold[0]), (all.ess[case], all.threshold[case]));
        assert_eq!(f64::from(theta[again.mode]), all.mode[case]);
    }
}

#[test]
fn gaussian_4_summaries_are_the_same_on_any_number_of_threads() {
    let theta: Vec<f32> = (0..500).map(|i| i as f32 * 0.02).collect();
    let measure = vec![-4.0; 500];
    let summary = Summary::new(&theta, &measure, &[0.68, 0.95]).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let fill = |case: usize, row: &mut [f64]| {
            row.iter_mut().enumerate().for_each(|(k, value)| *value = ((case * 31 + k * 17) as f64).sin());
            Ok::<_, GaussianError>(0.1)
        };
        pool.install(|| summary.cases(&vec![None; 64], fill)).unwrap()
    };
    let one = run(1);
    assert_eq!(one, run(2));
    let mut halves = Summaries::default();
    halves.append(one.clone());
    halves.append(one.clone());
    assert_eq!((halves.mode.len(), halves.lower.len()), (128, 256));
}

#[test]
fn retained_cases_are_spread_over_all() {
    assert_eq!(retained_cases(1_024, 3), [0, 511, 1_023]);
    assert_eq!(retained_cases(7, 2), [0, 6]);
    assert_eq!(retained_cases(7, 1), [3]);
    assert_eq!(retained_cases(2, 3), [0, 1]);
    assert!(retained_cases(0, 3).is_empty() && retained_cases(5, 0).is_empty());
}

#[test]
fn equal_scores_keep_their_order_and_zeros_are_equal() {
    assert_eq!(descending(&[0.0, -0.0, 1.0, -1.0, f64::NEG_INFINITY, 1.0]), [2, 5, 0, 1, 3, 4]);
}

#[test]
fn gaussian_5_a_set_is_all_above_its_edge_and_holds_its_level() {
    let mut rng = waycairn_analysis_api::stream(0, "test", None);
    let mut draw = || crate::random::uniform(&mut rng);
    for round in 0..300 {
        let count = 1 + (draw() * 60.0) as usize;
        // Few different scores, so that many are equal; some without mass.
        let scores: Vec<f64> = (0..count)
            .map(|k| if k > 0 && draw() < 0.1 { f64::NEG_INFINITY } else { (draw() * 8.0).floor() - 4.0 })
            .collect();
        let measure: Vec<f64> = (0..count).map(|_| 4.0 * draw() - 2.0).collect();
        let theta: Vec<f32> = (0..2 * count).map(|_| draw() as f32).collect();
        let levels = [0.01, 0.3, 0.68, 0.95, 1.0];
        let density = of(&theta, &scores, &measure, &levels).unwrap();
        let mass = normalized_mass(&scores, &measure).unwrap().mass;
        for (index, level) in levels.into_iter().enumerate() {
            let cut = density.threshold[index];
            let set: Vec<usize> =
                (0..count).filter(|k| scores[*k] >= cut && scores[*k].is_finite()).collect();
            let inside: f64 = set.iter().map(|k| mass[*k]).sum();
            assert!((inside - density.enclosed_mass[index]).abs() < 1e-12, "{round}");
            assert!(density.enclosed_mass[index] >= level - 1e-12);
            // Without the edge it would not reach the level.
            let above: f64 = (0..count).filter(|k| scores[*k] > cut).map(|k| mass[k]).sum();
            assert!(above < level + 1e-12);
            for axis in 0..2 {
                let values = || set.iter().map(|k| theta[2 * k + axis]);
                assert_eq!(density.lower[2 * index + axis], values().fold(f32::INFINITY, f32::min));
                assert_eq!(density.upper[2 * index + axis], values().fold(f32::NEG_INFINITY, f32::max));
            }
        }
    }
}
