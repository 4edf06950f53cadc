//! The weights of a checkpoint as a file for other programs.

use std::io::Write;
use std::path::Path;

use burn::tensor::TensorData;
use safetensors::SafeTensors;
use waycairn_dag::Node;
use waycairn_store::ObjectReader;

use crate::checkpoint::{CheckpointError, Depth, write_tensors};
use crate::error::TrainError;
use crate::restore;
use crate::weights::{NamedTensor, dtype};

/// The experiment that nanoGPT has a model for.
const GPT: &str = "gpt";

/// What [`export`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// The checkpoint's own `model.safetensors`, byte by byte: dotted module paths, linear weights
    /// `[inputs, outputs]`.
    Safetensors,
    /// Safetensors under the names of nanoGPT's `state_dict`, linear weights `[outputs, inputs]`.
    NanoGpt,
}

/// Writes the weights of a node's checkpoint.
///
/// For nanoGPT every tensor that its model has is there, `lm_head.weight` also where it is the token embedding, so
/// `load_state_dict` takes the file strictly. Number formats stay as they are; the bytes are a function of the weights.
///
/// # Errors
///
/// [`TrainError::NoCheckpoint`], [`TrainError::Checkpoint`]; [`TrainError::CannotExport`] for a model that the
/// format has no names for, before anything is written; [`TrainError::Export`] when `into` fails.
pub fn export(
    root: &Path,
    node: &Node,
    format: ExportFormat,
    into: &mut impl Write,
) -> Result<(), TrainError> {
    let reader = ObjectReader::open_live(root)?;
    let checkpoint = restore::open(&reader, node, Depth::Weights)?;
    let damaged = |source: CheckpointError| TrainError::Checkpoint {
        node: node.clone(),
        older: None,
        root: reader.root().to_owned(),
        carried: String::new(),
        source: Box::new(source),
    };
    let file = checkpoint.model().map_err(damaged)?;
    let written = match format {
        ExportFormat::Safetensors => into.write_all(file.bytes()),
        ExportFormat::NanoGpt => {
            let experiment = checkpoint.job().experiment.as_str();
            let cannot = |what: String| TrainError::CannotExport { node: node.clone(), what };
            if experiment != GPT {
                let what = format!("nanoGPT has no model like that of the experiment `{experiment}`");
                return Err(cannot(what));
            }
            let tensors = nanogpt(&file.tensors().map_err(damaged)?).map_err(cannot)?;
            write_tensors(&tensors, into)
        }
    };
    written.map_err(TrainError::Export)
}

/// The tensors of a `gpt` under nanoGPT's names and in its layout; else why there are none.
fn nanogpt(weights: &SafeTensors<'_>) -> Result<Vec<NamedTensor>, String> {
    let mut tensors = Vec::with_capacity(weights.len() + 1);
    for (name, view) in weights.iter() {
        let (renamed, linear) =
            renamed(name).ok_or_else(|| format!("nanoGPT has no tensor like `{name}`"))?;
        let dtype = dtype(view.dtype()).ok_or_else(|| {
            format!("`{name}` has the number format {:?}, which is none of weights", view.dtype())
        })?;
        let (bytes, shape) = match (linear, view.shape()) {
            (true, &[inputs, outputs]) => {
                (transposed(view.data(), inputs, outputs, dtype.size()), vec![outputs, inputs])
            }
            (true, shape) => {
                return Err(format!("`{name}` has the shape {shape:?}, and a linear map has two axes"));
            }
            (false, shape) => (view.data().to_vec(), shape.to_vec()),
        };
        let data = TensorData::try_from_bytes_vec(bytes, shape, dtype)
            .map_err(|error| format!("`{name}` cannot be read: {error:?}"))?;
        tensors.push(NamedTensor { name: renamed, data });
    }
    // A tied head is the token embedding, and PyTorch lists it under both names.
    let named = |wanted: &str| tensors.iter().find(|tensor| tensor.name == wanted);
    if named(HEAD).is_none() {
        let table = named(TOKENS).ok_or_else(|| "it has no token embedding".to_owned())?;
        tensors.push(NamedTensor { name: HEAD.to_owned(), data: table.data.clone() });
    }
    Ok(tensors)
}

const TOKENS: &str = "transformer.wte.weight";
const HEAD: &str = "lm_head.weight";

/// Our dotted path as nanoGPT calls it, and whether it is a linear weight; `None` for what nanoGPT does not have.
fn renamed(path: &str) -> Option<(String, bool)> {
    match path {
        "token_embedding.weight" => return Some((TOKENS.to_owned(), false)),
        "position_embedding.weight" => return Some(("transformer.wpe.weight".to_owned(), false)),
        "head.weight" => return Some((HEAD.to_owned(), true)),
        _ => {}
    }
    let (module, kind) = path.rsplit_once('.')?;
    if module == "final_norm" {
        return Some((format!("transformer.ln_f.{}", norm(kind)?), false));
    }
    let (index, part) = module.strip_prefix("blocks.")?.split_once('.')?;
    let index: usize = index.parse().ok()?;
    let (part, kind, linear) = match part {
        "attention_norm" => ("ln_1", norm(kind)?, false),
        "mlp_norm" => ("ln_2", norm(kind)?, false),
        "attention.qkv" => ("attn.c_attn", kind, kind == "weight"),
        "attention.output" => ("attn.c_proj", kind, kind == "weight"),
        "mlp.hidden" => ("mlp.c_fc", kind, kind == "weight"),
        "mlp.output" => ("mlp.c_proj", kind, kind == "weight"),
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| (format!("transformer.h.{index}.{part}.{kind}"), linear))
}

fn norm(kind: &str) -> Option<&'static str> {
    match kind {
        "gamma" => Some("weight"),
        "beta" => Some("bias"),
        _ => None,
    }
}

/// A row-major `[rows, columns]` matrix of elements of `size` bytes as `[columns, rows]`.
fn transposed(bytes: &[u8], rows: usize, columns: usize, size: usize) -> Vec<u8> {
    let mut turned = Vec::with_capacity(bytes.len());
    for column in 0..columns {
        for row in 0..rows {
            let start = (row * columns + column) * size;
            turned.extend_from_slice(&bytes[start..start + size]);
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;
    use crate::experiment::{Experiment, Initial};
    use crate::settings::{Schema, Settings};
    use crate::{Gpt, Stop, TrainRequest, train, weights};

    fn values(view: &safetensors::tensor::TensorView<'_>) -> Vec<f32> {
        view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// Our file and nanoGPT's of a tiny model.
    fn both(sets: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
        let mut settings = Settings::defaults(Schema::new(Gpt.keys()));
        for (path, value) in sets {
            settings.set(path, value).unwrap();
        }
        let model = Gpt.build(&settings, 11, &Initial::new(1, &Device::flex())).unwrap();
        let mut own = Vec::new();
        write_tensors(&weights::weights(&model), &mut own).unwrap();
        let mut other = Vec::new();
        let tensors = nanogpt(&SafeTensors::deserialize(&own).unwrap()).unwrap();
        write_tensors(&tensors, &mut other).unwrap();
        (own, other)
    }

    const SMALL: [(&str, &str); 4] =
        [("model.width", "8"), ("model.layers", "2"), ("model.heads", "2"), ("data.context", "5")];

    #[test]
    fn an_export_for_nanogpt_has_the_names_and_shapes_of_its_state_dict() {
        let (_, other) = both(&[&SMALL[..], &[("model.bias", "true"), ("model.tied", "false")]].concat());
        let file = SafeTensors::deserialize(&other).unwrap();
        let mut expected = vec![
            ("transformer.wte.weight".to_owned(), vec![11, 8]),
            ("transformer.wpe.weight".to_owned(), vec![5, 8]),
            ("transformer.ln_f.weight".to_owned(), vec![8]),
            ("transformer.ln_f.bias".to_owned(), vec![8]),
            ("lm_head.weight".to_owned(), vec![11, 8]),
        ];
        for block in 0..2 {
            for (part, shape) in [
                ("ln_1", vec![8]),
                ("attn.c_attn", vec![24, 8]),
                ("attn.c_proj", vec![8, 8]),
                ("ln_2", vec![8]),
                ("mlp.c_fc", vec![32, 8]),
                ("mlp.c_proj", vec![8, 32]),
            ] {
                let outputs = vec![shape[0]];
                expected.push((format!("transformer.h.{block}.{part}.weight"), shape));
                expected.push((format!("transformer.h.{block}.{part}.bias"), outputs));
            }
        }
        expected.sort();
        let mut found: Vec<(String, Vec<usize>)> =
            file.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect();
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn linear_weights_are_turned_and_a_tied_head_is_there_twice() {
        let (own, other) = both(&SMALL);
        let own = SafeTensors::deserialize(&own).unwrap();
        let other = SafeTensors::deserialize(&other).unwrap();
        assert_eq!(other.len(), own.len() + 1);
        for (ours, theirs, inputs, outputs) in [
            ("blocks.1.attention.qkv.weight", "transformer.h.1.attn.c_attn.weight", 8, 24),
            ("blocks.0.attention.output.weight", "transformer.h.0.attn.c_proj.weight", 8, 8),
            ("blocks.0.mlp.hidden.weight", "transformer.h.0.mlp.c_fc.weight", 8, 32),
            ("blocks.1.mlp.output.weight", "transformer.h.1.mlp.c_proj.weight", 32, 8),
        ] {
            let (ours, theirs) = (values(&own.tensor(ours).unwrap()), values(&other.tensor(theirs).unwrap()));
            for input in 0..inputs {
                for output in 0..outputs {
                    assert_eq!(ours[input * outputs + output], theirs[output * inputs + input]);
                }
            }
        }
        let table = own.tensor("token_embedding.weight").unwrap();
        for name in [TOKENS, HEAD] {
            assert_eq!(other.tensor(name).unwrap().data(), table.data(), "{name}");
        }
    }

    #[test]
    fn what_nanogpt_does_not_have_is_named() {
        let tensor =
            |name: &str| NamedTensor { name: name.to_owned(), data: TensorData::new(vec![1.0_f32], [1]) };
        for name in ["blocks.0.rotary.weight", "blocks.x.mlp.output.weight", "scale", "final_norm.weight"] {
            let mut bytes = Vec::new();
            write_tensors(&[tensor(name)], &mut bytes).unwrap();
            let what = nanogpt(&SafeTensors::deserialize(&bytes).unwrap()).unwrap_err();
            assert_eq!(what, format!("nanoGPT has no tensor like `{name}`"));
        }
    }

    #[test]
    fn an_export_in_our_own_names_is_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let mut request = TrainRequest::new(folder.path());
        request.sets = [&SMALL[..], &[("steps", "1"), ("eval_every", "off")]]
            .concat()
            .iter()
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
            .collect();
        let node = train(&crate::experiments![Gpt], &request, &Stop::new(), &mut ()).unwrap().node;
        let written = |format| {
            let mut bytes = Vec::new();
            export(folder.path(), &node, format, &mut bytes).unwrap();
            bytes
        };
        let blob = ObjectReader::open(folder.path()).unwrap().checkpoint(&node).unwrap().unwrap();
        let own = written(ExportFormat::Safetensors);
        assert_eq!(own, std::fs::read(blob.join("model.safetensors")).unwrap());
        let other = written(ExportFormat::NanoGpt);
        assert_eq!(other, written(ExportFormat::NanoGpt), "equal weights, equal bytes");
        assert!(SafeTensors::deserialize(&other).unwrap().tensor(HEAD).is_ok());
    }
}
