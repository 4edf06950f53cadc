#![doc = include_str!("../README.md")]

mod abi;
mod analysis;
mod array;
mod builder;
mod built;
mod context;
mod dtype;
mod element;
mod error;
pub mod export;
pub mod host;
mod json;
mod product;
mod random;
mod scalar;
mod sources;
mod stream;
mod study;
mod view;

pub use crate::analysis::{Analysis, Declaration, Kind, Needs};
pub use crate::array::NdArray;
pub use crate::builder::{ArrayMut, BuildContext};
pub use crate::built::ProductView;
pub use crate::context::{Context, LogLevel, Node};
pub use crate::dtype::DType;
pub use crate::element::{Bf16, Element};
pub use crate::error::{AnalysisError, ContextError, ErrorKind, Failure};
pub use crate::product::{Checked, Product, ProductDeclaration, ProductNeeds, Study};
pub use crate::random::{Stream, stream};
pub use crate::scalar::Scalar;
pub use crate::sources::Sources;
pub use crate::stream::{ArrowStream, Column, ColumnValues};
pub use crate::view::{OwnedTensor, TensorView, Tensors, Values};

// A plugin needs no dependency but this one: semver of these three is part of this crate's.
pub use rand_chacha::rand_core;
pub use serde;
pub use serde_json;
