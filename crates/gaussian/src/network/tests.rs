#![allow(clippy::unwrap_used, reason = "tests")]

use waycairn_analysis_api::stream;

use super::*;
use crate::random::uniform;

/// Weights within 1 / sqrt(fan in), as a network begins with.
struct Weights(Vec<(Vec<f32>, Vec<f32>)>);

impl Weights {
    fn new(shapes: &[(usize, usize)]) -> Self {
        let mut rng = stream(0, "model", None);
        let mut draw = |count: usize, inputs: usize| -> Vec<f32> {
            let bound = 1.0 / (inputs as f64).sqrt();
            (0..count).map(|_| ((2.0 * uniform(&mut rng) - 1.0) * bound) as f32).collect()
        };
        Self(shapes.iter().map(|(i, o)| (draw(i * o, *i), draw(*o, *i))).collect())
    }

    fn layers(&self) -> Vec<Linear<'_>> {
        self.0.iter().map(|(weight, bias)| Linear { weight, bias }).collect()
    }
}

fn values(count: usize, name: &str) -> Vec<f32> {
    let mut rng = stream(1, name, None);
    (0..count).map(|_| (10.0 * uniform(&mut rng)) as f32).collect()
}

/// One layer, row by row, in f64.
fn linear(layer: &Linear<'_>, input: &[f64]) -> Vec<f64> {
    let outputs = layer.bias.len();
    let of = |output: usize| {
        let products =
            input.iter().enumerate().map(|(i, value)| value * f64::from(layer.weight[i * outputs + output]));
        products.sum::<f64>() + f64::from(layer.bias[output])
    };
    (0..outputs).map(of).collect()
}

fn function(activation: Activation, values: Vec<f64>) -> Vec<f64> {
    let of = |x: f64| match activation {
        Activation::Relu => x.max(0.0),
        Activation::Tanh => libm::tanh(x),
        Activation::Gelu => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
    };
    values.into_iter().map(of).collect()
}

fn plain_mlp(layers: &[Linear<'_>], activation: Activation, input: Vec<f64>) -> f64 {
    let (last, hidden) = layers.split_last().unwrap();
    linear(last, &hidden.iter().fold(input, |h, layer| function(activation, linear(layer, &h))))[0]
}

fn plain_residual(layers: &[Linear<'_>], activation: Activation, input: Vec<f64>) -> f64 {
    let mut h = function(activation, linear(&layers[0], &input));
    for pair in layers[1..layers.len() - 1].chunks_exact(2) {
        let inner = linear(&pair[1], &function(activation, linear(&pair[0], &h)));
        h = function(activation, h.iter().zip(inner).map(|(a, b)| a + b).collect());
    }
    linear(layers.last().unwrap(), &h)[0]
}

const ACTIVATIONS: [Activation; 3] = [Activation::Relu, Activation::Tanh, Activation::Gelu];

/// Networks of d = 2 and p = 3, with the plain route of each.
fn each(mut check: impl FnMut(&Network, &dyn Fn(Vec<f64>) -> f64)) {
    let mlp = Weights::new(&[(5, 64), (64, 33), (33, 64), (64, 1)]);
    let residual = Weights::new(&[(5, 32), (32, 32), (32, 32), (32, 32), (32, 32), (32, 1)]);
    for activation in ACTIVATIONS {
        let layers = mlp.layers();
        let network = Network::mlp(2, 3, activation, &layers).unwrap();
        check(&network, &|input| plain_mlp(&layers, activation, input));
        let layers = residual.layers();
        let pairs: Vec<_> = layers[1..5].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let network = Network::residual(2, 3, activation, layers[0], &pairs, layers[5]).unwrap();
        check(&network, &|input| plain_residual(&layers, activation, input));
    }
}

fn row(x: &[f32], theta: &[f32]) -> Vec<f64> {
    x.iter().chain(theta).map(|value| f64::from(*value)).collect()
}

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{what}: {found}, not {expected}");
}

#[test]
fn gaussian_case_27_blocked_evaluation_equals_the_plain_route() {
    let theta = values(37 * 3, "theta");
    for count in [1, 3, 15, 700] {
        let x = values(2 * count * 2, "x");
        each(|network, plain| {
            let points = network.points(&theta).unwrap();
            let mut scores = vec![0.0; 2 * 37];
            network.ensemble_scores(&x, count, &points, &mut scores).unwrap();
            for (case, x) in x.chunks_exact(count * 2).enumerate() {
                for (k, theta) in theta.chunks_exact(3).enumerate() {
                    let logits: Vec<f64> = x.chunks_exact(2).map(|x| plain(row(x, theta))).collect();
                    let size: f64 = logits.iter().map(|logit| logit.abs()).sum();
                    let found = scores[case * 37 + k];
                    let expected: f64 = logits.iter().sum();
                    // Where a logit is nearly 0, the rounding of its terms, which are not, is what is left.
                    let slack = 1e-5 * size + 1e-6 * count as f64;
                    assert!((found - expected).abs() <= slack, "{found}, not {expected}");
                }
            }
        });
    }
}

#[test]
fn gaussian_case_27_rows_with_their_own_theta_or_one_for_all() {
    let (x, theta) = (values(1001 * 2, "x"), values(1001 * 3, "theta"));
    each(|network, plain| {
        let own = network.logits(&x, &theta).unwrap();
        let one = network.logits(&x, &theta[..3]).unwrap();
        for (r, x) in x.chunks_exact(2).enumerate() {
            close(own[r], plain(row(x, &theta[3 * r..3 * r + 3])), "own");
            close(one[r], plain(row(x, &theta[..3])), "one for all");
        }
        // One row, as a batch of it.
        assert_eq!(network.logits(&x[..2], &theta[..3]).unwrap(), own[..1]);
    });
}

#[test]
fn gaussian_4_blocks_and_threads_change_no_bit() {
    let (x, theta) = (values(3 * 15 * 2, "x"), values(2_500 * 3, "theta"));
    each(|network, _| {
        let points = network.points(&theta).unwrap();
        let mut expected = vec![0.0; 3 * 2_500];
        network.ensemble_scores(&x, 15, &points, &mut expected).unwrap();
        for rows in [1, 7, 64, 333, 4_096] {
            for threads in [1, 2] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut scores = vec![0.0; 3 * 2_500];
                pool.install(|| network.ensemble_scores_in(&x, 15, &points, &mut scores, rows)).unwrap();
                assert_eq!(scores, expected, "{rows} rows, {threads} threads");
                let logits = pool.install(|| network.logits_in(&x, &theta[..3 * x.len() / 2], rows)).unwrap();
                assert_eq!(logits, network.logits(&x, &theta[..3 * x.len() / 2]).unwrap());
            }
        }
    });
}

#[test]
fn gaussian_4_blocks_change_no_bit_of_a_wide_network_either() {
    // Deeper products than a kernel takes at once.
    let weights = Weights::new(&[(2, 700), (700, 70), (70, 1)]);
    let network = Network::mlp(1, 1, Activation::Relu, &weights.layers()).unwrap();
    let (x, theta) = (values(3, "x"), values(333, "theta"));
    let points = network.points(&theta).unwrap();
    let mut expected = vec![0.0; 333];
    network.ensemble_scores(&x, 3, &points, &mut expected).unwrap();
    for rows in [1, 7, 64, 333, 4_096] {
        let mut scores = vec![0.0; 333];
        network.ensemble_scores_in(&x, 3, &points, &mut scores, rows).unwrap();
        assert_eq!(scores, expected, "{rows}");
    }
}

#[test]
fn gaussian_3_the_score_of_a_point_does_not_depend_on_the_points_around_it() {
    let (x, theta) = (values(15 * 2, "x"), values(1_300 * 3, "theta"));
    each(|network, _| {
        let points = network.points(&theta).unwrap();
        let mut scores = vec![0.0; 1_300];
        network.ensemble_scores(&x, 15, &points, &mut scores).unwrap();
        for k in [0, 31, 32, 1_023, 1_024, 1_299] {
            let alone = network.points(&theta[3 * k..3 * k + 3]).unwrap();
            let mut score = [0.0];
            network.ensemble_scores(&x, 15, &alone, &mut score).unwrap();
            assert_eq!(score[0], scores[k], "{k}");
        }
    });
}

#[test]
fn gaussian_3_a_score_at_a_point_of_its_own_is_that_among_many() {
    let (x, theta) = (values(4 * 15 * 2, "x"), values(4 * 3, "theta"));
    each(|network, _| {
        let mut own = [0.0; 4];
        network.own_scores(&x, 15, &theta, &mut own).unwrap();
        let mut all = vec![0.0; 16];
        network.ensemble_scores(&x, 15, &network.points(&theta).unwrap(), &mut all).unwrap();
        assert_eq!(own, [all[0], all[5], all[10], all[15]]);
        assert!(network.own_scores(&x, 15, &theta[3..], &mut own).is_err());
        assert!(network.own_scores(&x[2..], 15, &theta, &mut own).is_err());
    });
}

#[test]
fn sizes_are_counted() {
    let default = Weights::new(&[(2, 64), (64, 64), (64, 64), (64, 64), (64, 1)]);
    let network = Network::mlp(1, 1, Activation::Relu, &default.layers()).unwrap();
    assert_eq!((network.trainable_parameters(), network.multiply_adds()), (12_737, 12_480));
    let smoke = Weights::new(&[(2, 32), (32, 32), (32, 1)]);
    let network = Network::mlp(1, 1, Activation::Relu, &smoke.layers()).unwrap();
    assert_eq!(network.trainable_parameters(), 1_185);
}

#[test]
fn what_does_not_fit_is_refused() {
    let weights = Weights::new(&[(2, 4), (4, 4), (4, 1)]);
    let layers = weights.layers();
    let network = Network::mlp(1, 1, Activation::Relu, &layers).unwrap();
    assert!(Network::mlp(2, 1, Activation::Relu, &layers).is_err());
    assert!(Network::mlp(1, 1, Activation::Relu, &layers[..1]).is_err());
    assert!(Network::mlp(1, 1, Activation::Relu, &layers[..2]).is_err(), "four logits");
    assert!(
        Network::residual(1, 1, Activation::Relu, layers[0], &[(layers[1], layers[2])], layers[2]).is_err()
    );
    let bad = [f32::NAN; 8];
    let refused = Network::mlp(1, 1, Activation::Relu, &[Linear { weight: &bad, ..layers[0] }, layers[2]]);
    assert!(refused.unwrap_err().to_string().contains("weights are finite"));

    let points = network.points(&[1.0, 2.0]).unwrap();
    let mut scores = [0.0; 2];
    assert!(network.ensemble_scores(&[1.0; 3], 2, &points, &mut scores).is_err());
    assert!(network.ensemble_scores(&[1.0; 2], 1, &points, &mut scores).is_err());
    assert!(network.logits(&[1.0; 3], &[1.0; 2]).is_err());
    let nan = network.ensemble_scores(&[f32::NAN], 1, &points, &mut scores).unwrap_err();
    assert!(nan.to_string().contains("NaN"), "{nan}");
    assert!(network.logits(&[f32::INFINITY, 1.0], &[1.0]).is_err());
}
