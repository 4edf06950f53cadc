//! The networks of the study, evaluated: logits of rows, and scores of ensembles over candidates.
//!
//! # How it is fast
//!
//! The scores of a study are almost all of its arithmetic: every candidate with every observation of every case through all
//! layers. Here
//!
//! - the first layer is split: the part of x and the part of theta are each computed once and added for every pair;
//! - rows go through all layers in blocks of about [`ROWS`], so that activations stay in the cache of a core, and only the
//!   sum over the observations leaves a block;
//! - activations are stored feature by feature, so that bias, function and the last layer work on long contiguous columns,
//!   and the matrix kernel reads and writes them without a transposition;
//! - the bias is one more row of the weights, and a column of ones one more feature: a 64th of the product instead of a pass
//!   over memory;
//! - threads share nothing but the weights; each works at candidates of one case.
//!
//! # What was measured
//!
//! On one core of a Xeon at 2.6 GHz with AVX-512, by its own time:
//!
//! | | GFLOP/s |
//! | --- | --- |
//! | `matrixmultiply` (through `ndarray`, whose interface is safe), \[480, 64\] x \[64, 64\] stored as here | 130 |
//! | the same stored row by row | 112 |
//! | `gemm`, stored as here; row by row | 90; 95 |
//! | `matrixmultiply`, `gemm`: two matrices of 1024 x 1024 | 103; 89 |
//! | scores of the 4 x 64 network, 1 input, 1 parameter, ensembles of 15, relu | 109 |
//! | ensembles of 1; of 100 | 90; 106 |
//! | tanh; gelu | 33; 19 |
//!
//! So the kernel has four fifths of the time with relu: the rest are the passes over activations, which the baseline's vectors
//! of four make. The other functions cost more than the products do.
//!
//! # What does not change a result
//!
//! A row's logit is one chain of operations that does not depend on where in a block the row stands, so the size of blocks
//! and the number of threads change no bit, and a truth that is a candidate gets the candidate's own score. (The depth of a
//! product is cut at a length that depends on the depth alone.)

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder as _};
use rayon::prelude::*;

use crate::activation::{Activation, weighted};
use crate::error::GaussianError;

/// Rows of a block: activations of 64 features and their products take a quarter of a megabyte.
pub const ROWS: usize = 480;

/// Candidates of a task of one thread.
const TASK: usize = 1024;

/// The weights of one linear layer, as Burn stores them.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// \[inputs, outputs\], row by row: the weights of the first input first.
    pub weight: &'a [f32],
    /// \[outputs\].
    pub bias: &'a [f32],
}

/// A network with one logit a row: its input is x, then theta.
#[derive(Clone, Debug)]
pub struct Network {
    /// Values of an observation.
    dimension: usize,
    /// Values of a parameter point.
    parameters: usize,
    activation: Activation,
    /// \[dimension + parameters + 1, width\]: the first layer, its bias last.
    first: Matrix,
    body: Body,
    /// The last layer: one weight a feature.
    last: Vec<f32>,
    bias: f32,
    /// The most features between two layers.
    widest: usize,
}

/// Rows of weights, the bias last.
#[derive(Clone, Debug)]
struct Matrix {
    inputs: usize,
    outputs: usize,
    values: Vec<f32>,
}

#[derive(Clone, Debug)]
enum Body {
    /// Layer, activation, layer, activation.
    Plain(Vec<Matrix>),
    /// h <- act(h + W2 act(W1 h)), for each pair.
    Residual(Vec<(Matrix, Matrix)>),
}

/// The part of the first layer that parameter points decide: computed once for all cases.
#[derive(Clone, Debug)]
pub struct Points {
    /// \[width, count\].
    part: Vec<f32>,
    count: usize,
}

impl Points {
    /// How many points there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Activations of one block, feature by feature.
struct Block {
    current: Vec<f32>,
    next: Vec<f32>,
    third: Vec<f32>,
    logits: Vec<f32>,
}

impl Matrix {
    fn new(layer: Linear<'_>, inputs: usize) -> Result<Self, GaussianError> {
        let outputs = layer.bias.len();
        if outputs == 0 {
            return Err(GaussianError::value("bias", "is empty: a layer has at least one output"));
        }
        GaussianError::length("weight", layer.weight.len(), inputs * outputs)?;
        let values = [layer.weight, layer.bias].concat();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(GaussianError::value("weight", format!("holds {value}; weights are finite")));
        }
        Ok(Self { inputs: inputs + 1, outputs, values })
    }

    /// out \[outputs, rows\] = `input` \[inputs, rows\], both feature by feature.
    fn product(&self, input: &[f32], out: &mut [f32], rows: usize) {
        let input = ArrayView2::from_shape((rows, self.inputs).f(), &input[..rows * self.inputs]);
        let weights = ArrayView2::from_shape((self.inputs, self.outputs), &self.values);
        let out = ArrayViewMut2::from_shape((rows, self.outputs).f(), &mut out[..rows * self.outputs]);
        // The slices have the lengths of their shapes.
        if let (Ok(input), Ok(weights), Ok(mut out)) = (input, weights, out) {
            general_mat_mul(1.0, &input, &weights, 0.0, &mut out);
        }
    }
}

impl Network {
    /// Builds an `mlp` from its linear layers, first to last; the last has one output.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where shapes do not follow each other or a weight is not finite.
    pub fn mlp(
        dimension: usize,
        parameters: usize,
        activation: Activation,
        layers: &[Linear<'_>],
    ) -> Result<Self, GaussianError> {
        let [first, hidden @ .., last] = layers else {
            return Err(GaussianError::value("layers", "are fewer than two: one in and one out"));
        };
        let first = Matrix::new(*first, dimension + parameters)?;
        let mut width = first.outputs;
        let mut body = Vec::with_capacity(hidden.len());
        for layer in hidden {
            let layer = Matrix::new(*layer, width)?;
            width = layer.outputs;
            body.push(layer);
        }
        Self::new(dimension, parameters, activation, first, Body::Plain(body), *last, width)
    }

    /// Builds a `residual` network: a layer in, pairs of layers of the same width, a layer with one output.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where shapes do not follow each other or a weight is not finite.
    pub fn residual(
        dimension: usize,
        parameters: usize,
        activation: Activation,
        first: Linear<'_>,
        blocks: &[(Linear<'_>, Linear<'_>)],
        last: Linear<'_>,
    ) -> Result<Self, GaussianError> {
        let first = Matrix::new(first, dimension + parameters)?;
        let width = first.outputs;
        let mut body = Vec::with_capacity(blocks.len());
        for (inner, outer) in blocks {
            let inner = Matrix::new(*inner, width)?;
            let outer = Matrix::new(*outer, inner.outputs)?;
            GaussianError::length("bias", outer.outputs, width)?;
            body.push((inner, outer));
        }
        Self::new(dimension, parameters, activation, first, Body::Residual(body), last, width)
    }

    fn new(
        dimension: usize,
        parameters: usize,
        activation: Activation,
        first: Matrix,
        body: Body,
        last: Linear<'_>,
        width: usize,
    ) -> Result<Self, GaussianError> {
        if dimension == 0 || parameters == 0 {
            return Err(GaussianError::value("layers", "take x and theta, each of at least one value"));
        }
        let last = Matrix::new(last, width)?;
        GaussianError::length("bias", last.outputs, 1)?;
        let hidden = match &body {
            Body::Plain(layers) => layers.iter().map(|layer| layer.outputs).max(),
            Body::Residual(blocks) => blocks.iter().map(|(inner, _)| inner.outputs).max(),
        };
        let widest = first.outputs.max(hidden.unwrap_or_default());
        let bias = last.values[width];
        let mut last = last.values;
        last.truncate(width);
        Ok(Self { dimension, parameters, activation, first, body, last, bias, widest })
    }

    /// Multiply-adds of one row, without those that the split of the first layer saves.
    #[must_use]
    pub fn multiply_adds(&self) -> usize {
        let of = |layer: &Matrix| (layer.inputs - 1) * layer.outputs;
        let body: usize = match &self.body {
            Body::Plain(layers) => layers.iter().map(of).sum(),
            Body::Residual(blocks) => blocks.iter().map(|(inner, outer)| of(inner) + of(outer)).sum(),
        };
        of(&self.first) + body + self.last.len()
    }

    /// How many numbers were learned.
    #[must_use]
    pub fn trainable_parameters(&self) -> usize {
        let body: usize = match &self.body {
            Body::Plain(layers) => layers.iter().map(|layer| layer.values.len()).sum(),
            Body::Residual(blocks) => {
                blocks.iter().map(|(inner, outer)| inner.values.len() + outer.values.len()).sum()
            }
        };
        self.first.values.len() + body + self.last.len() + 1
    }

    /// Takes parameter points \[count, parameters\] through their part of the first layer.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] where a point is not whole.
    pub fn points(&self, theta: &[f32]) -> Result<Points, GaussianError> {
        let count = theta.len() / self.parameters;
        GaussianError::length("theta", theta.len(), count * self.parameters)?;
        let width = self.first.outputs;
        let mut part = vec![0.0; width * count];
        for (feature, column) in part.chunks_exact_mut(count.max(1)).enumerate() {
            for (value, point) in column.iter_mut().zip(theta.chunks_exact(self.parameters)) {
                *value = self.partial(self.dimension, feature, point, 0.0);
            }
        }
        Ok(Points { part, count })
    }

    /// `start` plus the inputs from `from` on, each with its weight for a feature.
    fn partial(&self, from: usize, feature: usize, inputs: &[f32], start: f32) -> f32 {
        let weights = self.first.values[from * self.first.outputs..].chunks_exact(self.first.outputs);
        inputs.iter().zip(weights).fold(start, |sum, (input, weights)| sum + input * weights[feature])
    }

    /// The scores of ensembles: for case i and point k the sum over its observations of the logit, summed in f64 in the order
    /// of the observations.
    ///
    /// `observations` are \[cases, count, dimension\], `scores` \[cases, points\]. All cores work at it.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and where a score is not finite.
    pub fn ensemble_scores(
        &self,
        observations: &[f32],
        count: usize,
        points: &Points,
        scores: &mut [f64],
    ) -> Result<(), GaussianError> {
        self.ensemble_scores_in(observations, count, points, scores, ROWS)
    }

    /// The same in blocks of about that many rows.
    pub(crate) fn ensemble_scores_in(
        &self,
        observations: &[f32],
        count: usize,
        points: &Points,
        scores: &mut [f64],
        rows: usize,
    ) -> Result<(), GaussianError> {
        let one = count * self.dimension;
        if one == 0 || points.count == 0 || rows == 0 {
            return Err(GaussianError::value("observations", "or points are none"));
        }
        let cases = observations.len() / one;
        GaussianError::length("observations", observations.len(), cases * one)?;
        GaussianError::length("points", points.part.len(), points.count * self.first.outputs)?;
        GaussianError::length("scores", scores.len(), cases * points.count)?;
        scores.par_chunks_mut(points.count).zip(observations.par_chunks(one)).try_for_each(
            |(scores, observations)| {
                let parts = self.observation_parts(observations);
                scores.par_chunks_mut(TASK).enumerate().try_for_each(|(task, scores)| {
                    self.score(&parts, count, points, task * TASK, scores, rows);
                    match scores.iter().find(|score| !score.is_finite()) {
                        None => Ok(()),
                        Some(score) => Err(GaussianError::value("scores", format!("hold {score}"))),
                    }
                })
            },
        )
    }

    /// The score of each ensemble at a point of its own: `theta` is \[cases, parameters\], `scores` \[cases\]. What stands there
    /// is to the last bit what [`ensemble_scores`](Self::ensemble_scores) gives for that case and point.
    ///
    /// # Errors
    ///
    /// As [`ensemble_scores`](Self::ensemble_scores).
    pub fn own_scores(
        &self,
        observations: &[f32],
        count: usize,
        theta: &[f32],
        scores: &mut [f64],
    ) -> Result<(), GaussianError> {
        let one = (count * self.dimension).max(1);
        GaussianError::length("observations", observations.len(), scores.len() * one)?;
        GaussianError::length("theta", theta.len(), scores.len() * self.parameters)?;
        let cases = scores.par_chunks_mut(1).zip(observations.par_chunks(one));
        cases.zip(theta.par_chunks(self.parameters)).try_for_each(|((score, observations), theta)| {
            self.ensemble_scores(observations, count, &self.points(theta)?, score)
        })
    }

    /// The part of the first layer that observations decide, with the bias: \[count, width\].
    fn observation_parts(&self, observations: &[f32]) -> Vec<f32> {
        let width = self.first.outputs;
        let biases = &self.first.values[(self.first.inputs - 1) * width..];
        let each = observations.chunks_exact(self.dimension);
        each.flat_map(|x| (0..width).map(|feature| self.partial(0, feature, x, biases[feature]))).collect()
    }

    /// The scores of the points from `start` on, by blocks of candidates times observations.
    fn score(
        &self,
        parts: &[f32],
        count: usize,
        points: &Points,
        start: usize,
        scores: &mut [f64],
        rows: usize,
    ) {
        let width = self.first.outputs;
        // Long columns of candidates where observations are few, and still some where they are many.
        let candidates = (rows / count).max(rows.min(16)).min(scores.len());
        let together = (rows / candidates).clamp(1, count);
        let mut block = Block::new(self.widest, candidates * together);
        for (index, scores) in scores.chunks_mut(candidates).enumerate() {
            let (from, candidates) = (start + index * candidates, scores.len());
            scores.fill(0.0);
            for parts in parts.chunks(together * width) {
                let rows = parts.len() / width * candidates;
                for feature in 0..width {
                    let column = &points.part[feature * points.count + from..][..candidates];
                    let into = &mut block.current[feature * rows..][..rows];
                    for (into, part) in into.chunks_exact_mut(candidates).zip(parts.chunks_exact(width)) {
                        self.activation.apply_shifted(column, part[feature], into);
                    }
                }
                self.finish(&mut block, rows);
                // Observation by observation, whatever the block.
                for logits in block.logits[..rows].chunks_exact(candidates) {
                    for (score, logit) in scores.iter_mut().zip(logits) {
                        *score += f64::from(*logit);
                    }
                }
            }
        }
    }

    /// All layers after the first one, whose activations are in the block.
    fn finish(&self, block: &mut Block, rows: usize) {
        let width = self.first.outputs;
        match &self.body {
            Body::Plain(layers) => {
                for (index, layer) in layers.iter().enumerate() {
                    block.current[(layer.inputs - 1) * rows..][..rows].fill(1.0);
                    layer.product(&block.current, &mut block.next, rows);
                    std::mem::swap(&mut block.current, &mut block.next);
                    if index + 1 < layers.len() {
                        self.activation.apply(&mut block.current[..layer.outputs * rows]);
                    }
                }
            }
            Body::Residual(blocks) => {
                for (inner, outer) in blocks {
                    block.current[width * rows..][..rows].fill(1.0);
                    inner.product(&block.current, &mut block.next, rows);
                    self.activation.apply(&mut block.next[..inner.outputs * rows]);
                    block.next[inner.outputs * rows..][..rows].fill(1.0);
                    outer.product(&block.next, &mut block.third, rows);
                    self.activation
                        .apply_sum(&mut block.current[..width * rows], &block.third[..width * rows]);
                }
            }
        }
        let logits = &mut block.logits[..rows];
        logits.fill(self.bias);
        let columns = &block.current[..self.last.len() * rows];
        match &self.body {
            // The activation of the last hidden layer waited for this pass over its columns.
            Body::Plain(layers) if !layers.is_empty() => {
                self.activation.apply_weighted(columns, &self.last, logits);
            }
            Body::Plain(_) | Body::Residual(_) => weighted(columns, &self.last, logits, |value| value),
        }
    }

    /// The logit of each row of x \[rows, dimension\] with its theta \[rows, parameters\], or with one theta
    /// \[parameters\] for all.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and where a logit is not finite.
    pub fn logits(&self, x: &[f32], theta: &[f32]) -> Result<Vec<f64>, GaussianError> {
        self.logits_in(x, theta, ROWS)
    }

    /// The same in blocks of that many rows.
    pub(crate) fn logits_in(&self, x: &[f32], theta: &[f32], rows: usize) -> Result<Vec<f64>, GaussianError> {
        let count = x.len() / self.dimension;
        GaussianError::length("x", x.len(), count * self.dimension)?;
        let shared = theta.len() == self.parameters;
        if !shared {
            GaussianError::length("theta", theta.len(), count * self.parameters)?;
        }
        let mut out = vec![0.0; count];
        let rows = rows.max(1);
        let inputs = self.first.inputs;
        out.par_chunks_mut(rows).zip(x.par_chunks(rows * self.dimension)).enumerate().try_for_each_init(
            || Block::new(self.widest.max(inputs), rows),
            |block, (index, (out, x))| {
                let count = out.len();
                let theta = if shared { theta } else { &theta[index * rows * self.parameters..] };
                let step = if shared { 0 } else { self.parameters };
                for row in 0..count {
                    for (input, value) in x[row * self.dimension..][..self.dimension].iter().enumerate() {
                        block.next[input * count + row] = *value;
                    }
                    for (input, value) in theta[row * step..][..self.parameters].iter().enumerate() {
                        block.next[(self.dimension + input) * count + row] = *value;
                    }
                }
                block.next[(inputs - 1) * count..][..count].fill(1.0);
                self.first.product(&block.next, &mut block.current, count);
                self.activation.apply(&mut block.current[..self.first.outputs * count]);
                self.finish(block, count);
                for (out, logit) in out.iter_mut().zip(&block.logits) {
                    *out = f64::from(*logit);
                }
                match out.iter().find(|logit| !logit.is_finite()) {
                    None => Ok(()),
                    Some(logit) => Err(GaussianError::value("logits", format!("hold {logit}"))),
                }
            },
        )?;
        Ok(out)
    }
}

impl Block {
    fn new(widest: usize, rows: usize) -> Self {
        let size = (widest + 1) * rows;
        Self {
            current: vec![0.0; size],
            next: vec![0.0; size],
            third: vec![0.0; size],
            logits: vec![0.0; rows],
        }
    }
}

#[cfg(test)]
mod tests;
