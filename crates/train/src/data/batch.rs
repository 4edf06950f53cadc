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

/// One column of rows of numbers: so many values a row, as host array.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Values of one row; 0 for a column of single values, which has one axis.
    pub width: usize,
    /// The values, row by row.
    pub values: Vec<f32>,
}

impl Column {
    /// Values of one row in memory.
    fn stride(&self) -> usize {
        self.width.max(1)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.stride()
    }

    /// The shape of so many of its rows.
    #[must_use]
    pub fn shape(&self, rows: usize) -> Vec<usize> {
        if self.width == 0 { vec![rows] } else { vec![rows, self.width] }
    }

    /// Some of its rows, in the order of `rows`.
    pub(crate) fn gather(&self, rows: &[u32]) -> Self {
        let stride = self.stride();
        let mut values = Vec::with_capacity(rows.len() * stride);
        for row in rows {
            values.extend_from_slice(&self.values[*row as usize * stride..][..stride]);
        }
        Self { name: self.name, width: self.width, values }
    }

    /// The rows of a range.
    pub(crate) fn range(&self, rows: std::ops::Range<usize>) -> Self {
        let stride = self.stride();
        let values = self.values[rows.start * stride..rows.end * stride].to_vec();
        Self { name: self.name, width: self.width, values }
    }
}

/// Some rows of numbers: those of a step, or some that are only evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct RowBatch {
    /// Offset of the run in its data stream, plus seq.
    pub position: u64,
    /// Number of rows.
    pub rows: usize,
    /// The columns.
    pub columns: Vec<Column>,
}

impl RowBatch {
    /// Returns a column by its name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The batch of any experiment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnyBatch {
    Tokens(Batch),
    Rows(RowBatch),
}

impl AnyBatch {
    /// The batch of a text.
    #[cfg(test)]
    pub(crate) fn of_text(&self) -> &Batch {
        match self {
            Self::Tokens(batch) => batch,
            Self::Rows(_) => panic!("rows"),
        }
    }

    pub(crate) fn position(&self) -> u64 {
        match self {
            Self::Tokens(batch) => batch.position,
            Self::Rows(batch) => batch.position,
        }
    }

    /// Number of targets or rows that count.
    pub(crate) fn counted(&self) -> u64 {
        match self {
            Self::Tokens(batch) => batch.counted(),
            Self::Rows(batch) => batch.rows as u64,
        }
    }

    /// Returns the `index`-th of `parts` groups of rows; equal ones but for the last of rows of numbers, which ends with
    /// the rows.
    pub(crate) fn micro(&self, index: usize, parts: usize) -> Self {
        match self {
            Self::Tokens(batch) => Self::Tokens(batch.micro(index, parts)),
            Self::Rows(batch) => {
                let share = batch.rows.div_ceil(parts.max(1));
                let range = (index * share).min(batch.rows)..((index + 1) * share).min(batch.rows);
                Self::Rows(RowBatch {
                    position: batch.position,
                    rows: range.len(),
                    columns: batch.columns.iter().map(|column| column.range(range.clone())).collect(),
                })
            }
        }
    }

    /// Returns the arrays under their names.
    pub(crate) fn tensors(&self) -> Vec<HostTensor> {
        match self {
            Self::Tokens(batch) => batch.tensors(),
            Self::Rows(batch) => batch
                .columns
                .iter()
                .map(|column| HostTensor {
                    name: column.name.to_owned(),
                    dtype: "F32",
                    shape: column.shape(batch.rows),
                    bytes: column.values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                })
                .collect(),
        }
    }

    /// Returns the digest of the batch, recorded as `data/batch_sha256`.
    pub(crate) fn sha256(&self) -> Digest {
        digest_of(&self.tensors())
    }
}

/// The digest of host arrays.
fn digest_of(tensors: &[HostTensor]) -> Digest {
    digest_tensors(
        tensors.iter().map(|tensor| {
            (tensor.name.as_str(), tensor.dtype, tensor.shape.as_slice(), tensor.bytes.as_slice())
        }),
    )
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
        digest_of(&self.tensors())
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
