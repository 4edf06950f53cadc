//! One layer of a network over columns of rows, in the vectors that the machine has.
//!
//! Rows lie side by side, so that a vector holds one feature of as many rows, and a weight is the same for all of it: nothing is
//! packed or transposed, and a layer's output is the next one's input as it is. A tile of outputs and rows is summed in registers,
//! input by input, and its bias is added and its function applied before it is stored. That is the register-blocked kernel of
//! Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), without its packing, which columns of a
//! few hundred rows do not need.
//!
//! A row's value is one chain of fused multiply-adds, the same in every place of every tile, whatever the vectors are: no
//! result depends on the size of blocks, on the number of threads, or on which vectors the machine has.

use std::array::from_fn;

use pulp::{Arch, Simd, WithSimd};

use crate::activation::Activation;

/// Outputs whose weights stand together.
const PANEL: usize = 8;

/// Vectors of rows in a tile.
const VECTORS: usize = 3;

/// Registers of a machine whose tiles have the outputs of a whole panel.
const MANY_REGISTERS: usize = 32;

/// The weights of one layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Panel by panel its biases, then the weights of each input; zeros where there are no more outputs.
    panels: Vec<f32>,
}

impl Layer {
    /// Takes weights \[inputs, outputs\], row by row, and biases \[outputs\].
    pub(crate) fn new(weights: &[f32], biases: &[f32]) -> Self {
        let outputs = biases.len();
        let rows = || std::iter::once(biases).chain(weights.chunks_exact(outputs));
        let panel = |start| rows().flat_map(move |row| from_fn::<_, PANEL, _>(|o| of(row, start + o)));
        let panels = (0..outputs).step_by(PANEL).flat_map(panel).collect();
        Self { inputs: weights.len() / outputs, outputs, panels }
    }

    /// How many numbers were learned.
    pub(crate) fn parameters(&self) -> usize {
        (self.inputs + 1) * self.outputs
    }

    /// out \[outputs, rows\] = function of the layer over `input` \[inputs, rows\], both feature by feature; the sums alone
    /// without a function.
    pub(crate) fn apply(&self, input: &[f32], function: Option<Activation>, out: &mut [f32], rows: usize) {
        let (input, out) = (&input[..self.inputs * rows], &mut out[..self.outputs * rows]);
        Arch::new().dispatch(Product { layer: self, input, function, out, rows });
    }
}

/// A layer as it is compiled for each kind of vectors: in one codegen unit with all that it calls, or it is ten times slower.
struct Product<'a> {
    layer: &'a Layer,
    input: &'a [f32],
    function: Option<Activation>,
    out: &'a mut [f32],
    rows: usize,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { layer, input, function, out, rows } = self;
        let relu = function == Some(Activation::Relu);
        let panels = layer.panels.chunks_exact((layer.inputs + 1) * PANEL);
        let mut row = 0;
        // A tile of rows stays in the nearest cache for all panels.
        while row < rows {
            let whole = row + VECTORS * S::F32_LANES <= rows;
            for (panel, out) in panels.clone().zip(out.chunks_mut(PANEL * rows)) {
                Tile { panel, input, rows, row, relu }.fill(simd, whole, out);
            }
            row += S::F32_LANES * if whole { VECTORS } else { 1 };
        }
        if let Some(other @ (Activation::Tanh | Activation::Gelu)) = function {
            other.apply(out);
        }
    }
}

fn of(row: &[f32], output: usize) -> f32 {
    row.get(output).copied().unwrap_or_default()
}

/// Some rows of a layer, for the outputs of a panel.
struct Tile<'a> {
    panel: &'a [f32],
    /// \[inputs, rows\].
    input: &'a [f32],
    rows: usize,
    /// The first of the rows.
    row: usize,
    /// Negative sums become 0.
    relu: bool,
}

impl Tile<'_> {
    /// Fills the rows of `out` \[at most a panel, rows\]: those of [`VECTORS`], or of one that may not be whole.
    #[inline(always)]
    fn fill<S: Simd>(&self, simd: S, whole: bool, out: &mut [f32]) {
        if !whole {
            self.rest(simd, out);
        } else if S::REGISTER_COUNT >= MANY_REGISTERS {
            self.outputs::<S, PANEL>(simd, 0, out);
        } else {
            self.outputs::<S, { PANEL / 2 }>(simd, 0, out);
            if let Some(out) = out.get_mut(PANEL / 2 * self.rows..) {
                self.outputs::<S, { PANEL / 2 }>(simd, PANEL / 2, out);
            }
        }
    }

    /// `O` outputs of the panel from one on, over whole vectors. Its inner loops are unrolled, so that every sum is in a register.
    #[inline(always)]
    fn outputs<S: Simd, const O: usize>(&self, simd: S, from: usize, out: &mut [f32]) {
        let place = self.row..self.row + VECTORS * S::F32_LANES;
        let (biases, weights) = self.panel.split_at(PANEL);
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; O];
        for (column, weights) in self.input.chunks_exact(self.rows).zip(weights.chunks_exact(PANEL)) {
            let (vectors, _) = S::as_simd_f32s(&column[place.clone()]);
            let vectors: [S::f32s; VECTORS] = from_fn(|v| vectors[v]);
            for (sums, weight) in sums.iter_mut().zip(&weights[from..from + O]) {
                let weight = simd.splat_f32s(*weight);
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = simd.mul_add_f32s(weight, vector, *sum);
                }
            }
        }
        for (o, (sums, bias)) in sums.into_iter().zip(&biases[from..from + O]).enumerate() {
            // The last panel may have fewer outputs.
            let Some(column) = out.get_mut(o * self.rows..(o + 1) * self.rows) else { continue };
            let (vectors, _) = S::as_mut_simd_f32s(&mut column[place.clone()]);
            for (vector, sum) in vectors.iter_mut().zip(sums) {
                *vector = self.function(simd, sum, *bias);
            }
        }
    }

    /// All outputs of the panel, over one vector that may be longer than what is left of the rows.
    #[inline(always)]
    fn rest<S: Simd>(&self, simd: S, out: &mut [f32]) {
        let end = self.rows.min(self.row + S::F32_LANES);
        let (biases, weights) = self.panel.split_at(PANEL);
        let mut sums = [simd.splat_f32s(0.0); PANEL];
        for (column, weights) in self.input.chunks_exact(self.rows).zip(weights.chunks_exact(PANEL)) {
            let vector = simd.partial_load_f32s(&column[self.row..end]);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add_f32s(simd.splat_f32s(*weight), vector, *sum);
            }
        }
        for (column, (sum, bias)) in out.chunks_exact_mut(self.rows).zip(sums.into_iter().zip(biases)) {
            simd.partial_store_f32s(&mut column[self.row..end], self.function(simd, sum, *bias));
        }
    }

    /// A NaN stays one: a comparison, where a maximum would hide it.
    #[inline(always)]
    fn function<S: Simd>(&self, simd: S, sum: S::f32s, bias: f32) -> S::f32s {
        let sum = simd.add_f32s(sum, simd.splat_f32s(bias));
        let zero = simd.splat_f32s(0.0);
        if self.relu { simd.select_f32s(simd.less_than_f32s(sum, zero), zero, sum) } else { sum }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use pulp::Scalar;
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::random::uniform;

    fn values(count: usize, name: &str) -> Vec<f32> {
        let mut rng = stream(0, name, None);
        (0..count).map(|_| (uniform(&mut rng) - 0.5) as f32).collect()
    }

    /// What a layer gives by one kind of vectors; the places behind the rows keep what they had.
    fn by(
        layer: &Layer,
        input: &[f32],
        function: Option<Activation>,
        rows: usize,
        of: fn(Product<'_>),
    ) -> Vec<u32> {
        let mut out = vec![7.0; layer.outputs * rows];
        of(Product { layer, input, function, out: &mut out, rows });
        out.into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn gaussian_4_the_vectors_of_a_machine_change_no_bit() {
        let functions = [None, Some(Activation::Relu), Some(Activation::Tanh), Some(Activation::Gelu)];
        for (inputs, outputs) in [(1, 1), (2, 8), (5, 33), (64, 12), (3, 4)] {
            let layer = Layer::new(&values(inputs * outputs, "weights"), &values(outputs, "biases"));
            for rows in [1, 7, 15, 16, 17, 47, 48, 49, 100] {
                let input = values(inputs * rows, "input");
                for function in functions {
                    let one = by(&layer, &input, function, rows, |product| product.with_simd(Scalar::new()));
                    let widest = by(&layer, &input, function, rows, |product| Arch::new().dispatch(product));
                    assert_eq!(one, widest, "{inputs} x {outputs}, {rows} rows, {function:?}");
                    #[cfg(target_arch = "x86_64")]
                    if pulp::x86::V3::is_available() {
                        let eight = by(&layer, &input, function, rows, |product| {
                            Simd::vectorize(pulp::x86::V3::try_new().unwrap(), product);
                        });
                        assert_eq!(one, eight, "{inputs} x {outputs}, {rows} rows, {function:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_sum_that_is_no_number_stays_one() {
        let layer = Layer::new(&[1.0, -1.0], &[0.0, 0.0]);
        let mut out = [0.0; 4];
        layer.apply(&[f32::NAN, 2.0], Some(Activation::Relu), &mut out, 2);
        assert!(out[0].is_nan() && out[2].is_nan());
        assert_eq!((out[1], out[3]), (2.0, 0.0));
    }
}
