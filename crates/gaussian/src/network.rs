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
//! - activations are stored feature by feature, so that all passes work on long contiguous columns, and a layer reads what the
//!   one before it wrote: `product.rs`;
//! - threads share nothing but the weights; each works at candidates of one case.
//!
//! # What was measured
//!
//! On one core of an AMD EPYC (Zen 5) with AVX-512, where `matrixmultiply` makes 235 GFLOP/s of \[480, 65\] x \[65, 64\]:
//!
//! | scores of the 4 x 64 network, 1 input, 1 parameter | GFLOP/s |
//! | --- | --- |
//! | ensembles of 15, relu | 245 |
//! | ensembles of 1; of 100 | 215; 245 |
//! | tanh; gelu | 48; 25 |
//!
//! One layer alone comes to 270. With `matrixmultiply` for the layers, passes of their own for relu, and the bias as one more
//! row, ensembles of 15 came to 180 on this machine and to 106 on a Xeon at 2.6 GHz. The other functions cost more than the
//! products do.
//!
//! # What does not change a result
//!
//! A row's logit is one chain of operations that does not depend on where in a block the row stands, so the size of blocks
//! and the number of threads change no bit, and a truth that is a candidate gets the candidate's own score.

use rayon::prelude::*;

use crate::activation::{Activation, weighted};
use crate::error::GaussianError;
use crate::product::Layer;

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
    /// \[dimension + parameters, width\]: the first layer, row by row, for its parts; and as a whole.
    inputs: Vec<f32>,
    /// \[width\].
    biases: Vec<f32>,
    first: Layer,
    body: Body,
    /// The last layer: one weight a feature.
    last: Vec<f32>,
    bias: f32,
    /// The most features between two layers.
    widest: usize,
}

#[derive(Clone, Debug)]
enum Body {
    /// Layer, activation, layer, activation.
    Plain(Vec<Layer>),
    /// h <- act(h + W2 act(W1 h)), for each pair.
    Residual(Vec<(Layer, Layer)>),
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

/// The part of the first layer that the observations of a case decide, with the bias.
struct Ensemble {
    /// \[count, width\].
    parts: Vec<f32>,
    count: usize,
}

/// Activations of one block, feature by feature.
struct Block {
    current: Vec<f32>,
    next: Vec<f32>,
    third: Vec<f32>,
    logits: Vec<f32>,
}

impl Linear<'_> {
    /// Checks a layer of so many inputs.
    fn check(&self, inputs: usize) -> Result<(), GaussianError> {
        if self.bias.is_empty() {
            return Err(GaussianError::value("bias", "is empty: a layer has at least one output"));
        }
        GaussianError::length("weight", self.weight.len(), inputs * self.bias.len())?;
        match self.weight.iter().chain(self.bias).find(|value| !value.is_finite()) {
            Some(value) => Err(GaussianError::value("weight", format!("holds {value}; weights are finite"))),
            None => Ok(()),
        }
    }

    fn layer(&self, inputs: usize) -> Result<Layer, GaussianError> {
        self.check(inputs)?;
        Ok(Layer::new(self.weight, self.bias))
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
        let mut width = first.bias.len();
        let mut body = Vec::with_capacity(hidden.len());
        for layer in hidden {
            let layer = layer.layer(width)?;
            width = layer.outputs;
            body.push(layer);
        }
        Self::new(dimension, parameters, activation, *first, Body::Plain(body), *last, width)
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
        let width = first.bias.len();
        let mut body = Vec::with_capacity(blocks.len());
        for (inner, outer) in blocks {
            let inner = inner.layer(width)?;
            let outer = outer.layer(inner.outputs)?;
            GaussianError::length("bias", outer.outputs, width)?;
            body.push((inner, outer));
        }
        Self::new(dimension, parameters, activation, first, Body::Residual(body), last, width)
    }

    fn new(
        dimension: usize,
        parameters: usize,
        activation: Activation,
        first: Linear<'_>,
        body: Body,
        last: Linear<'_>,
        width: usize,
    ) -> Result<Self, GaussianError> {
        if dimension == 0 || parameters == 0 {
            return Err(GaussianError::value("layers", "take x and theta, each of at least one value"));
        }
        let (inputs, biases) = (first.weight.to_vec(), first.bias.to_vec());
        let first = first.layer(dimension + parameters)?;
        last.check(width)?;
        GaussianError::length("bias", last.bias.len(), 1)?;
        let hidden = match &body {
            Body::Plain(layers) => layers.iter().map(|layer| layer.outputs).max(),
            Body::Residual(blocks) => blocks.iter().map(|(inner, _)| inner.outputs).max(),
        };
        let widest = first.outputs.max(hidden.unwrap_or_default());
        let (last, bias) = (last.weight.to_vec(), last.bias[0]);
        Ok(Self { dimension, parameters, activation, inputs, biases, first, body, last, bias, widest })
    }

    /// Multiply-adds of one row, without those that the split of the first layer saves.
    #[must_use]
    pub fn multiply_adds(&self) -> usize {
        let of = |layer: &Layer| layer.inputs * layer.outputs;
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
            Body::Plain(layers) => layers.iter().map(Layer::parameters).sum(),
            Body::Residual(blocks) => {
                blocks.iter().map(|(inner, outer)| inner.parameters() + outer.parameters()).sum()
            }
        };
        self.first.parameters() + body + self.last.len() + 1
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
        let weights = self.inputs[from * self.first.outputs..].chunks_exact(self.first.outputs);
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
                let ensemble = Ensemble { parts: self.observation_parts(observations), count };
                let block = || Block::new(self.widest, rows.min(count * points.count.min(TASK)));
                let tasks = scores.par_chunks_mut(TASK).enumerate();
                tasks.try_for_each_init(block, |block, (task, scores)| {
                    self.score(&ensemble, points, task * TASK, scores, rows, block);
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
        let each = observations.chunks_exact(self.dimension);
        each.flat_map(|x| (0..width).map(|feature| self.partial(0, feature, x, self.biases[feature])))
            .collect()
    }

    /// The scores of the points from `start` on, by blocks of candidates times observations.
    fn score(
        &self,
        Ensemble { parts, count }: &Ensemble,
        points: &Points,
        start: usize,
        scores: &mut [f64],
        rows: usize,
        block: &mut Block,
    ) {
        let width = self.first.outputs;
        // Long columns of candidates where observations are few, and still some where they are many.
        let candidates = (rows / count).max(rows.min(16)).min(scores.len());
        let together = (rows / candidates).clamp(1, *count);
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
                self.finish(block, rows);
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
                for layer in layers {
                    layer.apply(&block.current, Some(self.activation), &mut block.next, rows);
                    std::mem::swap(&mut block.current, &mut block.next);
                }
            }
            Body::Residual(blocks) => {
                for (inner, outer) in blocks {
                    inner.apply(&block.current, Some(self.activation), &mut block.next, rows);
                    outer.apply(&block.next, None, &mut block.third, rows);
                    self.activation
                        .apply_sum(&mut block.current[..width * rows], &block.third[..width * rows]);
                }
            }
        }
        let logits = &mut block.logits[..rows];
        logits.fill(self.bias);
        weighted(&block.current[..self.last.len() * rows], &self.last, logits);
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
                self.first.apply(&block.next, Some(self.activation), &mut block.current, count);
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
        let size = widest * rows;
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
