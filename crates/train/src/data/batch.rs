//! One batch on the host.

use waycairn_durable::{Digest, Hasher};

/// The examples of one step, as host arrays.
///
/// Row-major, `rows` examples of `context` tokens. Where a window is shorter than the context its
/// row is filled with token 0, and `weights` is 0 there.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Offset of the run in its data stream, plus seq.
    pub position: u64,
    /// Number of examples.
    pub rows: usize,
    /// Tokens of one example.
    pub context: usize,
    /// Inputs, `rows * context`.
    pub tokens: Vec<i32>,
    /// The token after each input, `rows * context`.
    pub targets: Vec<i32>,
    /// 1 where a target counts, 0 where it is filling; absent when all count.
    pub weights: Option<Vec<f32>>,
}

/// The little-endian bytes of one named array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTensor {
    /// The name, dotted for parameters.
    pub name: String,
    /// The number format, as safetensors writes it: `F32`, `I32`, ..
    pub dtype: &'static str,
    /// The sizes, outermost first.
    pub shape: Vec<usize>,
    /// The values, little-endian, row-major.
    pub bytes: Vec<u8>,
}

impl Batch {
    /// Number of targets that count.
    #[must_use]
    pub fn counted(&self) -> u64 {
        match &self.weights {
            Some(weights) => weights.iter().filter(|weight| **weight != 0.0).count() as u64,
            None => self.targets.len() as u64,
        }
    }

    /// Returns the `index`-th of `parts` equal groups of rows.
    #[must_use]
    pub fn micro(&self, index: usize, parts: usize) -> Self {
        let rows = self.rows / parts.max(1);
        let range = index * rows * self.context..(index + 1) * rows * self.context;
        Self {
            position: self.position,
            rows,
            context: self.context,
            tokens: self.tokens[range.clone()].to_vec(),
            targets: self.targets[range.clone()].to_vec(),
            weights: self.weights.as_ref().map(|weights| weights[range].to_vec()),
        }
    }

    /// Returns the arrays under their names: `targets`, `tokens`, and `weights` where present.
    #[must_use]
    pub fn tensors(&self) -> Vec<HostTensor> {
        let shape = vec![self.rows, self.context];
        let integers = |name: &str, values: &[i32]| HostTensor {
            name: name.to_owned(),
            dtype: "I32",
            shape: shape.clone(),
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        let mut tensors = vec![integers("targets", &self.targets), integers("tokens", &self.tokens)];
        if let Some(weights) = &self.weights {
            tensors.push(HostTensor {
                name: "weights".to_owned(),
                dtype: "F32",
                shape: shape.clone(),
                bytes: weights.iter().flat_map(|value| value.to_le_bytes()).collect(),
            });
        }
        tensors
    }

    /// Returns the digest of the batch, recorded as `data/batch_sha256`.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        digest_tensors(self.tensors().iter().map(|tensor| {
            (tensor.name.as_str(), tensor.dtype, tensor.shape.as_slice(), tensor.bytes.as_slice())
        }))
    }
}

/// Digests named arrays: for each, in the order of the names, name, number format, rank, sizes
/// and bytes, with every length before its content as a 64-bit little-endian number.
///
/// This, not a digest of file bytes, is what "equal weights" means: a safetensors file may order
/// its header in several ways.
pub(crate) fn digest_tensors<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a str, &'a [usize], &'a [u8])>,
) -> Digest {
    let mut sorted: Vec<_> = tensors.into_iter().collect();
    sorted.sort_by(|left, right| left.0.cmp(right.0));
    let mut hasher = Hasher::new();
    let length = |hasher: &mut Hasher, value: usize| hasher.update(&(value as u64).to_le_bytes());
    for (name, dtype, shape, bytes) in sorted {
        for text in [name, dtype] {
            length(&mut hasher, text.len());
            hasher.update(text.as_bytes());
        }
        length(&mut hasher, shape.len());
        for size in shape {
            length(&mut hasher, *size);
        }
        length(&mut hasher, bytes.len());
        hasher.update(bytes);
    }
    hasher.finish()
}
