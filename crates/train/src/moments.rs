//! The optimizer's state under dotted paths.
//!
//! Burn keys optimizer state by parameter id, and an id is drawn anew for every model instance;
//! loading such a record into another instance succeeds and silently restarts Adam. So the record
//! is taken apart through `burn-pack`: each tensor `<id>.<field>` becomes `<path>.<field>`, each
//! scalar likewise, and on load they are put together again with the ids of the model at hand. A
//! parameter without its state is an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use burn::optim::ModuleOptimizer;
use burn::tensor::{Bytes, TensorData};
use burn_pack::{Reader, Scalar, Tensor as Packed, Writer};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use crate::weights::{NamedTensor, Parameter, dtype};

/// The optimizer's state, keyed by `<path>.<field>`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    /// Tensors, sorted by name.
    pub(crate) tensors: Vec<NamedTensor>,
    /// Step counts and the like.
    pub(crate) scalars: BTreeMap<String, SavedScalar>,
}

/// A scalar of the optimizer's state, as `state.json` holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedScalar {
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// The bits of a 64-bit float: decimal text could round.
    FloatBits(u64),
    /// A switch.
    Bool(bool),
}

impl From<Scalar> for SavedScalar {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Int(value) => Self::Int(value),
            Scalar::UInt(value) => Self::Uint(value),
            Scalar::Float(value) => Self::FloatBits(value.to_bits()),
            Scalar::Bool(value) => Self::Bool(value),
        }
    }
}

impl From<SavedScalar> for Scalar {
    fn from(scalar: SavedScalar) -> Self {
        match scalar {
            SavedScalar::Int(value) => Self::Int(value),
            SavedScalar::Uint(value) => Self::UInt(value),
            SavedScalar::FloatBits(bits) => Self::Float(f64::from_bits(bits)),
            SavedScalar::Bool(value) => Self::Bool(value),
        }
    }
}

/// Optimizer state that cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MomentsError {
    /// Burn's record is not what `burn-pack` reads.
    #[error("the optimizer's record cannot be taken apart")]
    Pack(#[source] burn_pack::Error),
    /// Burn refused the record.
    #[error("the optimizer's record is refused")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The record names a parameter that the model does not have.
    #[error("the optimizer has state for a parameter that the model does not have: `{name}`")]
    Foreign {
        /// The key in the record or the file.
        name: String,
    },
    /// A parameter has no saved state.
    #[error("the checkpoint has no optimizer state for `{path}`")]
    Missing {
        /// Dotted path of the parameter.
        path: String,
    },
    /// A parameter has only a part of its saved state.
    #[error("the checkpoint lacks a part of the optimizer state for `{path}`: {field}")]
    MissingField {
        /// Dotted path of the parameter.
        path: String,
        /// What is missing, such as a moment or the step count.
        field: String,
    },
    /// A saved tensor has a number format that the optimizer does not use.
    #[error("`{name}` has the number format {dtype}, which the optimizer does not use")]
    Format {
        /// The tensor.
        name: String,
        /// Its format.
        dtype: String,
    },
}

/// Takes the state of an optimizer apart.
pub(crate) fn take_apart(
    optimizer: &ModuleOptimizer,
    parameters: &[Parameter],
) -> Result<Moments, MomentsError> {
    let path_of: HashMap<u64, &str> =
        parameters.iter().map(|parameter| (parameter.id.val(), parameter.path.as_str())).collect();
    let rename = |key: &str| -> Result<String, MomentsError> {
        key.split_once('.')
            .and_then(|(id, field)| Some(format!("{}.{field}", path_of.get(&id.parse().ok()?)?)))
            .ok_or_else(|| MomentsError::Foreign { name: key.to_owned() })
    };
    let bytes = optimizer.into_bytes().map_err(record_error)?;
    let reader = Reader::from_bytes(bytes).map_err(MomentsError::Pack)?;
    let mut moments = Moments::default();
    for (key, scalar) in reader.scalars() {
        moments.scalars.insert(rename(key)?, (*scalar).into());
    }
    for packed in reader.into_tensors().map_err(MomentsError::Pack)? {
        let (key, dtype, shape, _, bytes) = packed.into_parts().map_err(MomentsError::Pack)?;
        moments
            .tensors
            .push(NamedTensor { name: rename(&key)?, data: TensorData::from_bytes(bytes, shape, dtype) });
    }
    moments.tensors.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(moments)
}

/// Loads saved state into an optimizer without state.
///
/// With `partial`, parameters without saved state start anew and foreign state is dropped.
pub(crate) fn put_together(
    optimizer: ModuleOptimizer,
    parameters: &[Parameter],
    file: &SafeTensors<'_>,
    scalars: &BTreeMap<String, SavedScalar>,
    partial: bool,
) -> Result<ModuleOptimizer, MomentsError> {
    // A parameter is a leaf, so no path is a dotted prefix of another.
    let by_path: BTreeMap<&str, &Parameter> =
        parameters.iter().map(|parameter| (parameter.path.as_str(), parameter)).collect();
    let owner = |name: &str| -> Option<&Parameter> {
        name.match_indices('.').find_map(|(at, _)| by_path.get(&name[..at]).copied())
    };
    let mut tensors: BTreeMap<&str, Vec<(String, Packed)>> = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some(parameter) = owner(name) else {
            if partial {
                continue;
            }
            return Err(MomentsError::Foreign { name: name.to_owned() });
        };
        let count: usize = view.shape().iter().product();
        if count != parameter.len {
            // The parameter has another shape now, so its old state is of no use.
            continue;
        }
        let dtype = dtype(view.dtype()).ok_or_else(|| MomentsError::Format {
            name: name.to_owned(),
            dtype: format!("{:?}", view.dtype()),
        })?;
        let field = name[parameter.path.len() + 1..].to_owned();
        let id = parameter.id.val();
        let packed = Packed::new(
            format!("{id}.{field}"),
            dtype,
            view.shape().to_vec(),
            Some(id),
            Bytes::from_bytes_vec(view.data().to_vec()),
        );
        tensors.entry(parameter.path.as_str()).or_default().push((field, packed));
    }
    let mut counts: BTreeMap<&str, BTreeMap<&str, SavedScalar>> = BTreeMap::new();
    for (name, scalar) in scalars {
        let Some(parameter) = owner(name) else {
            if partial {
                continue;
            }
            return Err(MomentsError::Foreign { name: name.clone() });
        };
        counts.entry(parameter.path.as_str()).or_default().insert(&name[parameter.path.len() + 1..], *scalar);
    }
    // One rule updates every parameter, so what one of them has, all have.
    let fields: BTreeSet<String> = tensors.values().flatten().map(|(field, _)| field.clone()).collect();
    let count_fields: BTreeSet<&str> = counts.values().flat_map(BTreeMap::keys).copied().collect();
    let (mut packed, mut whole) = (Vec::new(), Vec::new());
    for parameter in parameters {
        let path = parameter.path.as_str();
        let moments = tensors.remove(path).unwrap_or_default();
        let numbers = counts.remove(path).unwrap_or_default();
        let lacking = fields
            .iter()
            .map(String::as_str)
            .find(|field| !moments.iter().any(|(has, _)| has == field))
            .or_else(|| count_fields.iter().copied().find(|field| !numbers.contains_key(field)));
        if moments.is_empty() || count_fields.is_empty() || lacking.is_some() {
            if partial {
                continue;
            }
            let path = path.to_owned();
            return Err(match lacking {
                Some(field) if !moments.is_empty() => {
                    MomentsError::MissingField { path, field: field.to_owned() }
                }
                None if !moments.is_empty() => {
                    MomentsError::MissingField { path, field: "the step count".to_owned() }
                }
                _ => MomentsError::Missing { path },
            });
        }
        packed.extend(moments.into_iter().map(|(_, packed)| packed));
        whole.push((parameter, numbers));
    }
    let mut writer = Writer::new(packed);
    for (parameter, numbers) in whole {
        let id = parameter.id.val();
        for (field, scalar) in numbers {
            writer = writer.with_scalar(&format!("{id}.{field}"), scalar.into());
        }
        // Burn finds the group of a restored state by this path.
        writer = writer.with_metadata(&id.to_string(), &parameter.path);
    }
    let bytes = writer.into_bytes().map_err(MomentsError::Pack)?;
    optimizer.from_bytes(bytes).map_err(record_error)
}

fn record_error(error: burn::store::RecordError) -> MomentsError {
    MomentsError::Record(Box::new(error))
}
