//! Count, mean, deviation, squares and extremes of a tensor's elements in one pass.

use waycairn_analysis_api::{ContextError, TensorView};

/// Elements that are looked at together: they stay in the nearest cache for the two loops over them.
const BLOCK: usize = 1024;

/// Independent sums, so that the additions of one loop need not wait for each other.
const LANES: usize = 8;

/// What is known of the finite elements so far, and how many were not finite.
#[derive(Debug)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    /// The sum of squared differences from the mean.
    pub(crate) deviation: f64,
    pub(crate) squares: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) nan: usize,
    pub(crate) infinite: usize,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0.0,
            mean: 0.0,
            deviation: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            nan: 0,
            infinite: 0,
        }
    }
}

impl Moments {
    /// Reads all elements of a tensor.
    pub(crate) fn of(view: &TensorView<'_>) -> Result<Self, ContextError> {
        let mut moments = Self::default();
        let mut block = Vec::with_capacity(BLOCK);
        if let Some(elements) = view.as_f32() {
            for chunk in elements.chunks(BLOCK) {
                block.clear();
                block.extend(chunk.iter().map(|value| f64::from(*value)));
                moments.add(&mut block);
            }
            return Ok(moments);
        }
        view.iter_f64()?.for_each(|value| {
            block.push(value);
            if block.len() == BLOCK {
                moments.add(&mut block);
                block.clear();
            }
        });
        moments.add(&mut block);
        Ok(moments)
    }

    fn add(&mut self, block: &mut Vec<f64>) {
        // A product with zero is zero, but for what is not finite.
        if lanes(block, 0.0, |sum, value| sum + value * 0.0, |a, b| a + b).is_nan() {
            self.nan += block.iter().filter(|value| value.is_nan()).count();
            self.infinite += block.iter().filter(|value| value.is_infinite()).count();
            block.retain(|value| value.is_finite());
        }
        if block.is_empty() {
            return;
        }
        let count = block.len() as f64;
        let mean = lanes(block, 0.0, |sum, value| sum + value, |a, b| a + b) / count;
        let deviation = lanes(block, 0.0, |sum, value| sum + (value - mean) * (value - mean), |a, b| a + b);
        self.squares += lanes(block, 0.0, |sum, value| sum + value * value, |a, b| a + b);
        self.min = lanes(block, self.min, |min, value| if value < min { value } else { min }, f64::min);
        self.max = lanes(block, self.max, |max, value| if value > max { value } else { max }, f64::max);

        // Two sets of elements, each with its own mean: the difference of large sums would lose a small deviation.
        let total = self.count + count;
        let shift = mean - self.mean;
        self.mean += shift * count / total;
        self.deviation += deviation + shift * shift * self.count * count / total;
        self.count = total;
    }
}

/// Folds into several states side by side, and joins these.
fn lanes(values: &[f64], start: f64, step: impl Fn(f64, f64) -> f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut states = [start; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (state, value) in states.iter_mut().zip(chunk) {
            *state = step(*state, *value);
        }
    }
    let joined = states.into_iter().reduce(&join).unwrap_or(start);
    rest.iter().fold(joined, |state, value| step(state, *value))
}
