//! Every figure, of data as the study has it, and of data as it should not be.

use plotters::style::Color;
use serde_json::json;
use waycairn_analysis_api::{AnalysisError, Stream, stream};
use waycairn_gaussian::metrics::Pairwise;
use waycairn_gaussian::settings::{
    InferenceSettings, ParametersSettings, PriorDefinitions, ProblemSettings, Section,
};
use waycairn_gaussian::{Candidates, ExactScores, Prior, Problem, Summary, Truths, standard_normal, uniform};

use super::axis::Axis;
use super::bitmap::{png, tree};
use super::figure::{Figure, Figures, Format};
use super::inference::{Estimates, Retained};
use super::layers::{BLACK, Stroke, VERMILION, area, line};
use super::reweighting::Pair;
use super::training::{History, Validation};
use super::words::short;
use super::{calibration, observations, pairwise, prior, tarp, training};

/// A problem and a prior of a family for all of its parameters.
fn study(family: &str, dimension: usize, infer: &[&str]) -> (Problem, Prior) {
    let settings = ProblemSettings::read(&json!({"dimension": dimension, "infer": infer})).unwrap();
    let parameters = ParametersSettings::default();
    let problem = Problem::resolve(&settings, &parameters).unwrap();
    let definitions = PriorDefinitions::default();
    let definition = definitions.get(family).unwrap();
    let prior = Prior::resolve(family, definition, &settings, &parameters, &problem).unwrap();
    (problem, prior)
}

fn priors(family: &str, infer: &[&str], bins: usize) -> Figures {
    let (problem, prior) = study(family, 1, infer);
    let samples = prior.sample(20_000, &mut stream(0, "prior-plot", None)).unwrap();
    prior::draw(&problem, &prior, &samples, bins).unwrap()
}

/// The figures of an inference that knows the likelihood, up to an error that is smooth in theta.
fn inference(
    family: &str,
    dimension: usize,
    infer: &[&str],
    settings: serde_json::Value,
    most: usize,
) -> Figures {
    let (problem, prior) = study(family, dimension, infer);
    let settings = InferenceSettings::read(&settings).unwrap();
    let truths = Truths::new(&problem, &settings, &mut stream(0, "truth-design", None)).unwrap();
    let x = truths.observe(&problem, 15, &mut stream(0, "inference-observations", None)).unwrap();
    let support = Candidates::support(&prior, &settings);
    let candidates =
        Candidates::new(&problem, &support, &settings, &mut stream(0, "candidate-design", None)).unwrap();
    let names = problem.names();
    let p = names.len();
    let exact = ExactScores::new(&problem, &candidates.theta).unwrap();
    let each = 15 * dimension;
    let exact_scores = |case: usize| {
        let mut scores = vec![0.0; candidates.log_measure.len()];
        exact.of_case(&x[case * each..][..each], &mut scores).unwrap();
        scores
    };
    let ratio = |case: usize| -> Vec<f64> {
        let wrong = |theta: &[f32]| theta.iter().map(|value| (f64::from(*value) * 1.3).sin()).sum::<f64>();
        exact_scores(case)
            .iter()
            .zip(candidates.theta.chunks_exact(p))
            .map(|(score, theta)| score + wrong(theta))
            .collect()
    };
    let summary = Summary::new(&candidates.theta, &candidates.log_measure, &settings.levels).unwrap();
    let membership = vec![None; truths.theta.len() / p];
    let summaries = summary
        .cases(&membership, |case, scores| {
            scores.copy_from_slice(&ratio(case));
            Ok::<_, waycairn_gaussian::GaussianError>(0.0)
        })
        .unwrap();
    let estimates = Estimates {
        parameters: &names,
        levels: &settings.levels,
        truth: &truths.theta,
        mode: &summaries.mode,
        lower: &summaries.lower,
        upper: &summaries.upper,
    };
    let mut figures = estimates.draw(most).unwrap();
    let prior = prior.log_densities(&candidates.theta).unwrap();
    for case in waycairn_gaussian::retained_cases(membership.len(), 2) {
        let (ratio, exact) = (ratio(case), exact_scores(case));
        let posterior: Vec<f64> = ratio.iter().zip(&prior).map(|(ratio, prior)| ratio + prior).collect();
        let retained = Retained {
            case,
            parameters: &names,
            theta: &candidates.theta,
            log_measure: &candidates.log_measure,
            scores: &[("ratio", &ratio), ("posterior", &posterior), ("exact", &exact)],
            truth: &truths.theta[case * p..][..p],
        };
        figures.extend(retained.draw(100).unwrap());
    }
    figures
}

fn history(epochs: usize) -> History {
    let loss = |epoch: usize, end: f64| Some(end + 0.05 / (epoch + 1) as f64);
    History {
        train_loss: (0..epochs).map(|epoch| loss(epoch, 0.5402)).collect(),
        validation: (0..epochs).map(|epoch| Validation { bce: loss(epoch, 0.5411) }).collect(),
        selected_epoch: epochs,
    }
}

/// Log ratios of pairs, ever further from the exact ones.
fn ratios(pairs: usize, each: usize) -> (Vec<f64>, Vec<f64>) {
    let mut rng = stream(0, "ratios", None);
    let mut exact = Vec::new();
    let mut learned = Vec::new();
    for pair in 0..pairs {
        for probe in 0..each {
            let side = if probe < each / 2 { -4.0 } else { 4.0 };
            let value = side + 3.0 * standard_normal(&mut rng);
            exact.push(value);
            learned.push(value * (1.0 - 0.1 * pair as f64) + 0.4 * standard_normal(&mut rng));
        }
    }
    (exact, learned)
}

/// Normal samples at 3 and at `target`, with the log ratio of those at 3, `off` too large in slope.
fn samples(
    rng: &mut Stream,
    count: usize,
    target: f64,
    off: f64,
) -> (Vec<f32>, Vec<f32>, Vec<f64>, Vec<f64>) {
    let source: Vec<f32> = (0..count).map(|_| (3.0 + 2.0 * standard_normal(rng)) as f32).collect();
    let to: Vec<f32> = (0..count).map(|_| (target + 2.0 * standard_normal(rng)) as f32).collect();
    let exact = |x: f32| {
        let x = f64::from(x);
        ((x - 3.0).powi(2) - (x - target).powi(2)) / 8.0
    };
    let learned = source.iter().map(|x| exact(*x) * off).collect();
    let exact = source.iter().map(|x| exact(*x)).collect();
    (source, to, learned, exact)
}

fn pair(count: usize, target: f64, bins: usize, with_exact: bool) -> Figures {
    let (source, target, learned, exact) = samples(&mut stream(0, "samples", None), count, target, 0.85);
    let exact = with_exact.then_some(exact.as_slice());
    let pair = Pair { dimension: 1, source: &source, target: &target, learned: &learned, exact };
    pair.draw("pair 7 (from 0) of 256: sliced W1 1.23, the worst", bins).unwrap()
}

fn shares(count: usize, bend: f64) -> Vec<f64> {
    let mut rng = stream(0, "shares", None);
    (0..count).map(|_| uniform(&mut rng).powf(bend)).collect()
}

/// Every kind of figure, with labels that its SVG has.
fn everything() -> Vec<(String, String, Vec<&'static str>)> {
    let mut all = Vec::new();
    let mut add = |plot: &str, figures: Figures, labels: &[&'static str]| {
        for (name, svg) in figures {
            all.push((format!("{plot}-{name}"), svg, labels.to_vec()));
        }
    };
    add(
        "training",
        training::draw(&history(5)).unwrap(),
        &["epoch", "cross-entropy (nats per row)", "validation"],
    );
    add("training-one", training::draw(&history(1)).unwrap(), &["epoch 1, whose weights"]);
    add("training-many", training::draw(&history(500)).unwrap(), &["training"]);
    for family in ["uniform", "normal", "exponential", "grid"] {
        add(
            &format!("prior-{family}"),
            priors(family, &["mean:0"], 100),
            &["mean \u{3bc}\u{2080}", "exact", "20000 samples"],
        );
    }
    add(
        "prior-std",
        priors("normal", &["std:0"], 100),
        &["standard deviation \u{3c3}\u{2080}", "probability density"],
    );
    add("prior-few", priors("grid", &["mean:0"], 30), &["mean probability of a value"]);
    let small = json!({"sobol_truths": 256, "candidate_count": 16_384});
    let labels = &["mean \u{3bc}\u{2080}"];
    add("inference-1", inference("uniform", 1, &["mean:*"], small.clone(), 200), labels);
    add("inference-lattice", inference("grid", 1, &["mean:*"], small.clone(), 200), labels);
    let smoke = json!({"truth_design": "grid", "truth_points_per_axis": 7, "candidate_count": 256});
    add("inference-smoke", inference("normal", 1, &["mean:*"], smoke, 200), labels);
    let free = json!({"sobol_truths": 32, "align_truths_to_grid": false, "candidate_count": 16_384});
    add("inference-2", inference("normal", 1, &["std:0", "mean:0"], free, 200), &["\u{2080}"]);
    let two = json!({"sobol_truths": 64, "candidate_count": 16_384});
    add("inference-2-lattice", inference("grid", 2, &["mean:*"], two, 200), &[]);
    let one = json!({"sobol_truths": 1, "candidate_count": 1_024});
    add("inference-alone", inference("uniform", 1, &["mean:*"], one, 200), labels);
    let many = json!({"sobol_truths": 2_000, "align_truths_to_grid": false, "candidate_count": 512});
    add("inference-many", inference("uniform", 1, &["mean:*"], many, 2_000), labels);
    let (exact, learned) = ratios(6, 1_024);
    let labels = &["exact log ratio", "learned log ratio", "RMSE"];
    add("pairwise", pairwise::draw(&exact, &learned, 6).unwrap(), labels);
    add("pairwise-constant", pairwise::draw(&[0.0; 8], &[0.0; 8], 2).unwrap(), labels);
    let labels = &["observation x\u{2080}", "probability density", "learned weights (ESS"];
    add("reweighting", pair(2_048, 4.0, 100, true), labels);
    add("reweighting-far", pair(2_048, 9.6, 100, true), labels);
    add("showcase", pair(200_000, 7.0, 1_000, false), labels);
    add("reweighting-one", pair(1, 4.0, 100, true), labels);
    let (problem, _) = study("uniform", 2, &["mean:*"]);
    let mut x = Vec::new();
    problem.simulate(&[3.0, 7.0], 15, &mut stream(0, "x", None), &mut x).unwrap();
    add("observations", observations::draw(&x[..15], 1, 100).unwrap(), &["observations in a bin"]);
    add("observations-2", observations::draw(&x, 2, 100).unwrap(), &["observation x\u{2081}"]);
    add("observations-constant", observations::draw(&[2.0; 15], 1, 100).unwrap(), &["15 observations"]);
    let labels = &["share of mass below the true mean \u{3bc}\u{2080}", "holds an ideal curve"];
    let names = ["mean:0".to_owned()];
    add(
        "calibration",
        calibration::draw(&names, &shares(500, 1.0), &shares(500, 0.98), 0.95).unwrap(),
        labels,
    );
    add(
        "calibration-bent",
        calibration::draw(&names, &shares(500, 1.3), &shares(500, 0.98), 0.95).unwrap(),
        labels,
    );
    add("calibration-one", calibration::draw(&names, &[0.4], &[0.6], 0.95).unwrap(), labels);
    let labels = &["credibility level", "expected coverage", "holds an ideal curve"];
    add("tarp", tarp::draw(&shares(500, 1.0), &shares(500, 0.98), 0.95).unwrap(), labels);
    add("tarp-bent", tarp::draw(&shares(500, 1.6), &shares(500, 0.98), 0.95).unwrap(), labels);
    all
}

#[test]
fn each_figure_has_its_size_and_its_labels_and_the_same_bytes_again() {
    let again = everything();
    for ((name, svg, labels), (_, second, _)) in everything().into_iter().zip(again) {
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{name}");
        for label in labels {
            assert!(svg.contains(label), "{name}: {label}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        assert!(svg.contains("font-family=\"DejaVu Sans, sans-serif\""), "{name}");
        let points =
            [" width=\"", " height=\""].map(|attribute| number_after(&svg, attribute).unwrap_or_default());
        assert!(points.iter().all(|points| (200.0..600.0).contains(points)), "{name}: {points:?}");
        for dpi in [1, 70, 140] {
            let expected = points.map(|points| (points / 72.0 * dpi as f64).round() as u32);
            assert_eq!(size_of(&png(&svg, dpi).unwrap()), expected, "{name} at {dpi}");
        }
        inside(&name, &svg, points);
        assert_eq!(png(&svg, 70).unwrap(), png(&second, 70).unwrap(), "{name}");
        assert_eq!(svg, second, "{name}");
    }
}

/// The number after what stands before it for the first time.
fn number_after(text: &str, before: &str) -> Option<f64> {
    let rest = &text[text.find(before)? + before.len()..];
    rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.')?].parse().ok()
}

/// The size that a PNG says it has; its parts have the checksums that they say.
fn size_of(png: &[u8]) -> [u32; 2] {
    let number = |at: usize| png[at..at + 4].iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let mut at = 8;
    let mut kinds = Vec::new();
    while at < png.len() {
        let length = number(at) as usize;
        let mut crc = flate2::Crc::new();
        crc.update(&png[at + 4..at + 8 + length]);
        assert_eq!(crc.sum(), number(at + 8 + length));
        kinds.push(png[at + 4..at + 8].to_vec());
        at += 12 + length;
    }
    assert_eq!(kinds, [b"IHDR", b"pHYs", b"IDAT", b"IEND"].map(|kind| kind.to_vec()));
    [number(16), number(20)]
}

/// No text is cut off or lies on another, as it is set for the bitmap.
fn inside(name: &str, svg: &str, [width, height]: [f64; 2]) {
    let mut boxes = Vec::new();
    let tree = tree(svg).unwrap();
    texts(tree.root(), &mut boxes);
    assert!(boxes.len() > 4, "{name}");
    for (index, (text, a)) in boxes.iter().enumerate() {
        let [left, top, right, bottom] = a.map(f64::from);
        assert!(left >= 0.0 && top >= 0.0 && right <= width && bottom <= height, "{name}: {text} at {a:?}");
        for (other, b) in &boxes[..index] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{name}: {text} {a:?} lies on {other} {b:?}");
        }
    }
}

/// The texts of a tree, and the ends of their outlines.
fn texts(group: &usvg::Group, boxes: &mut Vec<(String, [f32; 4])>) {
    for node in group.children() {
        match node {
            usvg::Node::Group(inner) => texts(inner, boxes),
            usvg::Node::Text(text) => {
                let outline = text.flattened().abs_bounding_box();
                let ends = [outline.left(), outline.top(), outline.right(), outline.bottom()];
                boxes.push((text.chunks().iter().map(usvg::TextChunk::text).collect(), ends));
            }
            _ => {}
        }
    }
}

#[test]
fn pixels_are_those_of_the_shapes() {
    // All of the frame is half vermilion, and its diagonal black.
    let axis = || Axis::new("", 0.0, 1.0);
    let figure = Figure::new(Format::Square, axis(), axis());
    let svg = figure
        .draw(|chart| {
            area(chart, vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)], VERMILION.mix(0.5))?;
            line(chart, vec![(0.0, 0.0), (1.0, 1.0)], Stroke::new(BLACK, 9.0))
        })
        .unwrap();
    let png = png(&svg, 72).unwrap();
    let from = png.windows(4).position(|window| window == b"IDAT").unwrap();
    let mut lines = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&png[from + 4..]), &mut lines).unwrap();
    let [width, _] = size_of(&png).map(|length| length as usize);
    let pixel = |x: usize, y: usize| &lines[y * (width * 3 + 1) + 1 + x * 3..][..3];
    assert_eq!(pixel(1, 1), [255; 3], "outside of the frame");
    assert_eq!(pixel(100, 20), [234, 174, 127]);
    assert_eq!(pixel(58 + 130, 8 + 130), [0; 3], "in the middle");
}

#[test]
fn a_resolution_that_no_memory_holds_is_refused_with_its_setting() {
    let (_, svg) = training::draw(&history(1)).unwrap().remove(0);
    for dpi in [50_000, u64::MAX] {
        let error = png(&svg, dpi).unwrap_err().to_string();
        assert!(error.contains("lower `plotting.dpi`"), "{error}");
    }
}

fn refused<T>(result: Result<T, AnalysisError>, why: &str) {
    let error = result.err().unwrap().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_is_empty_or_not_finite_is_an_error_that_says_so() {
    let history =
        |losses: Vec<Option<f64>>| History { train_loss: losses, validation: Vec::new(), selected_epoch: 1 };
    refused(training::draw(&history(vec![])), "nothing to draw");
    refused(training::draw(&history(vec![None, Some(f64::NAN)])), "nothing to draw");
    assert!(training::draw(&history(vec![None, Some(0.5)])).is_ok());

    refused(pairwise::draw(&[], &[], 0), "no pair");
    refused(pairwise::draw(&[1.0, 2.0], &[1.0], 1), "expected");
    refused(
        pairwise::draw(&[1.0; 2], &[1.0, f64::INFINITY], 1),
        "`probe_log_ratio` has at 1 a value that is not finite",
    );
    refused(super::reweighting::worst(&[]), "no pair");
    refused(super::reweighting::worst(&[1.0, f64::NAN]), "not finite");
    assert_eq!(super::reweighting::worst(&[1.0, 3.0, 3.0]).unwrap(), 1);
    assert_eq!(super::reweighting::part(&[1, 2, 3, 4], 2, 1).unwrap(), [3, 4]);
    refused(super::reweighting::part(&[1, 2, 3], 2, 1), "expected");

    let pair = |source: &[f32], learned: &[f64]| {
        Pair { dimension: 1, source, target: &[1.0, 2.0], learned, exact: None }.draw("", 10)
    };
    refused(pair(&[], &[]), "no sample");
    refused(pair(&[f32::NAN], &[0.0]), "not finite");
    refused(pair(&[1.0], &[f64::NAN]), "log_ratio");
    refused(pair(&[1.0, 2.0], &[0.0]), "expected");
    assert!(pair(&[1.0], &[f64::NEG_INFINITY]).is_err());

    refused(observations::draw(&[], 1, 10), "no observation");
    refused(observations::draw(&[f32::INFINITY], 1, 10), "not finite");
    refused(tarp::draw(&[], &[], 0.95), "shares");
    refused(tarp::draw(&[0.5], &[0.5], 1.0), "probability");
    let names = ["mean:0".to_owned()];
    refused(calibration::draw(&names, &[f64::NAN], &[0.5], 0.95), "shares");
    refused(calibration::draw(&names, &[0.5], &[], 0.95), "expected");

    let (problem, prior) = study("uniform", 1, &["mean:0"]);
    refused(prior::draw(&problem, &prior, &[], 10), "plotting.prior_points");
}

#[test]
fn the_pair_of_the_median_says_how_it_stands_to_the_median_of_the_metric() {
    // Of four pairs it was called the median, with an error that is not the metric's.
    for (pairs, which) in [(4, "next below the median error of "), (5, "the median error<")] {
        let (exact, learned) = ratios(pairs, 64);
        let metric = Pairwise::new(&learned, &exact, &vec![1.0; pairs]).unwrap();
        let errors = &metric.per_pair_rmse;
        let mut order: Vec<usize> = (0..pairs).collect();
        order.sort_by(|a, b| errors[*a].total_cmp(&errors[*b]));
        let shown = order[(pairs - 1) / 2];
        let figures = pairwise::draw(&exact, &learned, pairs).unwrap();
        let note = format!("pair {shown} (from 0) of {pairs}: RMSE {}, {which}", short(errors[shown]));
        let note = if pairs == 4 { note + &short(metric.median_pair_rmse) } else { note };
        assert!(figures[0].1.replace("\n", "").contains(&note), "{note}: {}", figures[0].1);
        assert_eq!(pairs == 5, errors[shown] == metric.median_pair_rmse);
        let worst = order[pairs - 1];
        assert!(figures[1].1.contains(&format!("pair {worst} (from 0) of {pairs}: RMSE")), "{worst}");
    }
}

#[test]
fn a_lattice_in_few_bins_shows_the_probability_of_a_value() {
    let (problem, prior) = study("grid", 1, &["mean:0"]);
    let samples = prior.sample(2_000, &mut stream(0, "prior-plot", None)).unwrap();
    for (bins, label) in [(100, "probability of a value<"), (30, "mean probability of a value<")] {
        let svg = prior::draw(&problem, &prior, &samples, bins).unwrap().remove(0).1;
        assert!(svg.replace("\n", "").contains(label), "{bins}");
        // The exact probability of each of 51 values, and its entry in the legend.
        assert_eq!(svg.matches("<circle").count(), 52, "{bins}");
    }
}

#[test]
fn cases_without_estimates_or_mass_are_errors() {
    let names = ["mean:0".to_owned()];
    let estimates = Estimates {
        parameters: &names,
        levels: &[0.68],
        truth: &[1.0, 2.0],
        mode: &[1.0, f64::NAN],
        lower: &[0.5, 1.0],
        upper: &[1.5, 3.0],
    };
    refused(estimates.draw(10), "the estimates of `mean:0` has at 3 a value that is not finite");
    refused(Estimates { truth: &[], ..estimates }.draw(10), "no case");
    refused(Estimates { lower: &[0.5], ..estimates }.draw(10), "expected");
    assert_eq!(Estimates { mode: &[1.0, 2.0], ..estimates }.draw(1).unwrap()[0].0, "estimates-mean-0");

    let retained = |scores: &[f64], truth: &[f32]| {
        let scores = [("ratio", scores)];
        Retained {
            case: 3,
            parameters: &names,
            theta: &[0.0, 1.0],
            log_measure: &[0.0; 2],
            scores: &scores,
            truth,
        }
        .draw(10)
    };
    refused(retained(&[f64::NEG_INFINITY; 2], &[0.5]), "case 3, target `ratio`");
    refused(retained(&[0.0, f64::NAN], &[0.5]), "case 3, target `ratio`");
    refused(retained(&[0.0; 2], &[f32::NAN]), "not finite");
    let figures = retained(&[0.0, 1.0], &[0.5]).unwrap();
    assert_eq!(figures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["marginal-3-mean-0"]);
}
