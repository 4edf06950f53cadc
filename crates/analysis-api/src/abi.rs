//! The boundary itself: everything that names `abi_stable`, and all of this crate's `unsafe`.
//!
//! ```text
//! host process                              plugin library
//! ------------                              --------------
//! open()  -- reads -->  static Header       [version, layout of PluginModule, constructor]
//! Plugin  -- calls -->  PluginModule        count, declare, analyze   (functions, grows at the end)
//! Bridge  <- calls ---  ContextObject       HostContext's methods     (a table, grows at the end)
//! ```
//!
//! No value changes owner but texts, vectors of tensors and the Arrow stream, which carry the function that frees
//! them. The rest of the crate calls the plain functions at the end of this file and never sees these types.

#![expect(unsafe_code, reason = "the boundary between two separately compiled libraries")]
#![allow(
    missing_docs,
    non_local_definitions,
    unused_braces,
    unreachable_pub,
    reason = "what the macros of abi_stable generate"
)]

pub(crate) mod arrow;
mod bridge;
pub(crate) mod build;
pub(crate) mod open;

use abi_stable::StableAbi;
use abi_stable::library::{CheckTypeLayout, LibHeader, RootModule, RootModuleResult};
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_trait;
use abi_stable::sabi_types::{RRef, VersionStrings};
use abi_stable::std_types::{RErr, ROk, RResult, RSlice, RStr, RString, RVec};

use self::arrow::ArrowArrayStream;
use self::build::BuildObject;
use crate::context::{Context, LogLevel, Node};
use crate::error::{ContextError, ErrorKind, Failure};
use crate::export::{Export, guard};
use crate::host::Parts;
use crate::scalar::Scalar;
use crate::stream::ArrowStream;
use crate::view::OwnedTensor;

/// What a library exports. Fields are added after the last prefix field alone, and read as an option.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef)))]
#[sabi(missing_field(option))]
pub struct PluginModule {
    /// How many analyses there are.
    pub count: extern "C" fn() -> usize,
    /// The declaration of one as JSON text.
    pub declare: extern "C" fn(usize) -> RResult<RString, RawFailure>,
    /// Makes one, calls it, drops it.
    #[sabi(last_prefix_field)]
    pub analyze: for<'a> extern "C" fn(usize, ContextObject<'a>) -> RResult<(), RawFailure>,
    // Interface 1.1.
    /// The settings that the library adds to a study, with their defaults, as JSON text.
    pub settings: extern "C" fn() -> RResult<RString, RawFailure>,
    /// How many products there are.
    pub product_count: extern "C" fn() -> usize,
    /// The declaration of one as JSON text.
    pub product_declare: extern "C" fn(usize) -> RResult<RString, RawFailure>,
    /// What its builder gets, of training settings, analysis settings and member.
    pub product_select:
        for<'a, 'b, 'c> extern "C" fn(usize, RStr<'a>, RStr<'b>, RStr<'c>) -> RResult<RString, RawFailure>,
    /// What building it with these selected settings takes.
    pub product_estimate: for<'a> extern "C" fn(usize, RStr<'a>) -> RResult<RString, RawFailure>,
    /// Whether it may be built with these selected settings.
    pub product_check: for<'a> extern "C" fn(usize, RStr<'a>) -> RResult<RString, RawFailure>,
    /// Builds one.
    pub product_build: for<'a> extern "C" fn(usize, BuildObject<'a>) -> RResult<(), RawFailure>,
    // Interface 1.2.
    /// Is told how many threads pools of the library's own may have, before anything is built or analysed.
    pub threads: extern "C" fn(usize) -> RResult<(), RawFailure>,
}

impl RootModule for PluginModuleRef {
    abi_stable::declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "waycairn_analysis";
    const NAME: &'static str = "waycairn_analysis";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}

/// What a host offers to an analysis. Methods are added after the last prefix field alone, with a default body
/// that answers as a host without them would.
#[sabi_trait]
pub trait HostContext {
    fn node(&self) -> RawNode<'_>;
    fn parents(&self) -> RVec<RStr<'_>>;
    fn settings(&self) -> RStr<'_>;
    fn experiment_settings(&self) -> RStr<'_>;
    fn weights(&self) -> RResult<RVec<TensorView<'_>>, RawFailure>;
    fn batch(&self) -> RResult<RVec<TensorView<'_>>, RawFailure>;
    fn forward(&self, inputs: RSlice<'_, TensorView<'_>>) -> RResult<RVec<RawTensor>, RawFailure>;
    fn scalars(
        &self,
        expression: RStr<'_>,
        keys: RSlice<'_, RStr<'_>>,
    ) -> RResult<ArrowArrayStream, RawFailure>;
    fn log(&self, level: u8, text: RStr<'_>);
    fn emit_artifact(
        &self,
        suffix: RStr<'_>,
        description: RSlice<'_, RawField<'_>>,
        payload: RSlice<'_, u8>,
    ) -> RResult<(), RawFailure>;
    fn emit_scalar(&self, key: RStr<'_>, value: RawScalar<'_>) -> RResult<(), RawFailure>;
    #[sabi(last_prefix_field)]
    fn emit_file(
        &self,
        name: RStr<'_>,
        media_type: RStr<'_>,
        bytes: RSlice<'_, u8>,
    ) -> RResult<(), RawFailure>;
    // Interface 1.1.
    fn study(&self) -> RStr<'_> {
        RStr::from_str("null")
    }
    fn product(&self, name: RStr<'_>) -> RResult<RawProduct<'_>, RawFailure> {
        RErr(lacking(name.as_str(), "products"))
    }
    fn call(
        &self,
        function: RStr<'_>,
        inputs: RSlice<'_, TensorView<'_>>,
    ) -> RResult<RVec<RawTensor>, RawFailure> {
        let _ = inputs;
        RErr(lacking(function.as_str(), "functions of an experiment"))
    }
    fn emit_metric(&self, text: RStr<'_>) -> RResult<(), RawFailure> {
        let _ = text;
        RErr(lacking("emit_metric", "metrics"))
    }
    fn progress(&self, done: u64, total: u64, what: RStr<'_>) {
        let _ = (done, total, what);
    }
    fn cancelled(&self) -> bool {
        false
    }
}

/// What a method answers where the host was built before it: the plugin's own body, run in the plugin.
fn lacking(asked: &str, what: &str) -> RawFailure {
    let text = format!(
        "`{asked}`: this host is of an interface before 1.1, which has no {what}; use a newer waycairn"
    );
    Failure { kind: ErrorKind::Unavailable, message: text, backtrace: String::new() }.into()
}

/// The context as it crosses: a borrowed object and its table of methods.
pub type ContextObject<'a> = HostContext_TO<'a, RRef<'a, ()>>;

/// A failure as it crosses. The code is a number so that kinds can be added.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawFailure {
    code: u32,
    message: RString,
    backtrace: RString,
}

/// A node as it crosses.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawNode<'a> {
    name: RStr<'a>,
    nonce: RStr<'a>,
    address: RStr<'a>,
    seq: u64,
}

/// A borrowed tensor: its name, element type, shape and little-endian bytes.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct TensorView<'a> {
    name: RStr<'a>,
    dtype: RStr<'a>,
    shape: RSlice<'a, usize>,
    bytes: RSlice<'a, u8>,
}

/// A tensor that changes owner.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawTensor {
    name: RString,
    dtype: RString,
    shape: RVec<usize>,
    bytes: RVec<u8>,
}

/// A product as it crosses: what was said about it as JSON texts, and views of its arrays.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawProduct<'a> {
    key: RStr<'a>,
    metadata: RStr<'a>,
    arrays: RVec<TensorView<'a>>,
    documents: RVec<RawDocument<'a>>,
}

/// A named JSON text.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawDocument<'a> {
    name: RStr<'a>,
    text: RStr<'a>,
}

/// A scalar as it crosses.
#[repr(u8)]
#[derive(StableAbi)]
pub enum RawScalar<'a> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(RStr<'a>),
}

/// One key of a description as it crosses.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawField<'a> {
    key: RStr<'a>,
    value: RawScalar<'a>,
}

impl<'a> TensorView<'a> {
    pub(crate) fn from_parts(name: &'a str, dtype: &'a str, shape: &'a [usize], bytes: &'a [u8]) -> Self {
        Self { name: name.into(), dtype: dtype.into(), shape: shape.into(), bytes: bytes.into() }
    }

    /// The name of the tensor.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name.as_str()
    }

    /// The name of the element type, e.g. `float32`, also where this version does not know it.
    #[must_use]
    pub fn dtype_name(&self) -> &'a str {
        self.dtype.as_str()
    }

    /// The lengths of the axes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape.as_slice()
    }

    /// The elements, little-endian, row-major.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes.as_slice()
    }
}

/// Element types without padding whose every bit pattern is a value. No other crate can name it, and so none can implement it.
pub trait Plain: Copy + std::fmt::Debug + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// The bytes as little-endian elements in place; `None` if they are not aligned, or on a big-endian machine.
pub(crate) fn cast_slice<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    if cfg!(target_endian = "big") {
        return None;
    }
    // SAFETY: every bit pattern of a `Plain` type is a value of it, and `align_to` sees to the alignment.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// As [`cast_slice`], to be written; `None` if they are not aligned, or on a big-endian machine.
pub(crate) fn cast_slice_mut<T: Plain>(bytes: &mut [u8]) -> Option<&mut [T]> {
    if cfg!(target_endian = "big") {
        return None;
    }
    // SAFETY: every bit pattern of a `Plain` type is a value of it, none of them has padding, so that what is written
    // through the answer is bytes again, and `align_to_mut` sees to the alignment.
    let (before, elements, after) = unsafe { bytes.align_to_mut::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

impl<'a> From<Parts<'a>> for RawProduct<'a> {
    fn from(parts: Parts<'a>) -> Self {
        let document =
            |(name, text): (&'a str, &'a str)| RawDocument { name: name.into(), text: text.into() };
        Self {
            key: parts.key.into(),
            metadata: parts.metadata.into(),
            arrays: parts.arrays.into(),
            documents: parts.documents.into_iter().map(document).collect(),
        }
    }
}

impl<'a> From<RawProduct<'a>> for Parts<'a> {
    fn from(raw: RawProduct<'a>) -> Self {
        Self {
            key: raw.key.as_str(),
            metadata: raw.metadata.as_str(),
            arrays: raw.arrays.into_vec(),
            documents: raw.documents.iter().map(|d| (d.name.as_str(), d.text.as_str())).collect(),
        }
    }
}

impl From<Failure> for RawFailure {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.kind.code(),
            message: failure.message.into(),
            backtrace: failure.backtrace.into(),
        }
    }
}

impl From<RawFailure> for Failure {
    fn from(failure: RawFailure) -> Self {
        Self {
            kind: ErrorKind::from_code(failure.code),
            message: failure.message.into_string(),
            backtrace: failure.backtrace.into_string(),
        }
    }
}

impl<'a> From<&'a Scalar> for RawScalar<'a> {
    fn from(scalar: &'a Scalar) -> Self {
        match scalar {
            Scalar::Bool(value) => RawScalar::Bool(*value),
            Scalar::Int(value) => RawScalar::Int(*value),
            Scalar::Float(value) => RawScalar::Float(*value),
            Scalar::Text(value) => RawScalar::Text(value.as_str().into()),
        }
    }
}

impl From<&RawScalar<'_>> for Scalar {
    fn from(scalar: &RawScalar<'_>) -> Self {
        match scalar {
            RawScalar::Bool(value) => Scalar::Bool(*value),
            RawScalar::Int(value) => Scalar::Int(*value),
            RawScalar::Float(value) => Scalar::Float(*value),
            RawScalar::Text(value) => Scalar::Text(value.as_str().to_owned()),
        }
    }
}

impl From<OwnedTensor> for RawTensor {
    fn from(tensor: OwnedTensor) -> Self {
        let (name, dtype, shape, bytes) = tensor.into_parts();
        Self { name: name.into(), dtype: dtype.into(), shape: shape.into(), bytes: bytes.into() }
    }
}

impl From<RawTensor> for OwnedTensor {
    fn from(tensor: RawTensor) -> Self {
        OwnedTensor::from_parts(
            tensor.name.into_string(),
            tensor.dtype.into_string(),
            tensor.shape.into_vec(),
            tensor.bytes.into_vec(),
        )
    }
}

/// What [`export_analyses!`](crate::export_analyses) exports under the symbol that a host looks for.
#[repr(transparent)]
pub struct Header(LibHeader);

/// The header of a library.
#[must_use]
pub const fn header<L: Export>() -> Header {
    // SAFETY: `construct` answers a `PluginModuleRef` behind an erased type.
    Header(unsafe { LibHeader::from_constructor::<PluginModuleRef>(construct::<L>, CheckTypeLayout::Yes) })
}

extern "C" fn construct<L: Export>() -> RootModuleResult {
    abi_stable::library::__call_root_module_loader(module::<L>)
}

fn module<L: Export>() -> PluginModuleRef {
    let module = PluginModule {
        count: count::<L>,
        declare: declare::<L>,
        analyze: analyze::<L>,
        settings: build::settings::<L>,
        product_count: build::count::<L>,
        product_declare: build::declare::<L>,
        product_select: build::select::<L>,
        product_estimate: build::estimate::<L>,
        product_check: build::check::<L>,
        product_build: build::build::<L>,
        threads: threads::<L>,
    };
    module.leak_into_prefix()
}

extern "C" fn threads<L: Export>(number: usize) -> RResult<(), RawFailure> {
    across(|| {
        if let Some(threads) = L::THREADS {
            threads(number);
        }
        Ok(())
    })
}

extern "C" fn count<L: Export>() -> usize {
    L::ENTRIES.len()
}

fn across<T, R: From<T>>(body: impl FnOnce() -> Result<T, Failure>) -> RResult<R, RawFailure> {
    match guard(body) {
        Ok(value) => ROk(value.into()),
        Err(failure) => RErr(failure.into()),
    }
}

fn entry<L: Export>(index: usize) -> Result<&'static crate::export::Entry, Failure> {
    L::ENTRIES.get(index).ok_or_else(|| Failure::invalid(format!("this library has no analysis {index}")))
}

extern "C" fn declare<L: Export>(index: usize) -> RResult<RString, RawFailure> {
    across(|| {
        let declaration = entry::<L>(index)?.declare()?;
        serde_json::to_string(&declaration)
            .map_err(|error| Failure::invalid(format!("the declaration does not serialise: {error}")))
    })
}

extern "C" fn analyze<L: Export>(index: usize, context: ContextObject<'_>) -> RResult<(), RawFailure> {
    across(|| {
        let context = Context::new(context)?;
        entry::<L>(index)?.run(&context)
    })
}

// What the rest of the crate calls on a context. Each is one call across the boundary.

fn answer<T>(result: RResult<T, RawFailure>) -> Result<T, ContextError> {
    match result {
        ROk(value) => Ok(value),
        RErr(failure) => Err(Failure::from(failure).into()),
    }
}

pub(crate) fn node<'s>(context: &'s ContextObject<'_>) -> Node<'s> {
    let node = context.node();
    Node {
        name: node.name.as_str(),
        nonce: node.nonce.as_str(),
        seq: node.seq,
        address: node.address.as_str(),
    }
}

pub(crate) fn parents<'s>(context: &'s ContextObject<'_>) -> Vec<&'s str> {
    context.parents().iter().map(RStr::as_str).collect()
}

pub(crate) fn settings<'s>(context: &'s ContextObject<'_>) -> &'s str {
    context.settings().as_str()
}

pub(crate) fn experiment_settings<'s>(context: &'s ContextObject<'_>) -> &'s str {
    context.experiment_settings().as_str()
}

pub(crate) fn weights<'s>(context: &'s ContextObject<'_>) -> Result<Vec<TensorView<'s>>, ContextError> {
    answer(context.weights()).map(RVec::into_vec)
}

pub(crate) fn batch<'s>(context: &'s ContextObject<'_>) -> Result<Vec<TensorView<'s>>, ContextError> {
    answer(context.batch()).map(RVec::into_vec)
}

pub(crate) fn forward(
    context: &ContextObject<'_>,
    inputs: &[TensorView<'_>],
) -> Result<Vec<OwnedTensor>, ContextError> {
    let outputs = answer(context.forward(inputs.into()))?;
    Ok(outputs.into_iter().map(OwnedTensor::from).collect())
}

pub(crate) fn scalars(
    context: &ContextObject<'_>,
    expression: &str,
    keys: &[&str],
) -> Result<ArrowStream, ContextError> {
    let keys: Vec<RStr<'_>> = keys.iter().map(|key| RStr::from(*key)).collect();
    answer(context.scalars(expression.into(), keys.as_slice().into())).map(ArrowStream::new)
}

pub(crate) fn study<'s>(context: &'s ContextObject<'_>) -> &'s str {
    context.study().as_str()
}

pub(crate) fn product<'s>(context: &'s ContextObject<'_>, name: &str) -> Result<Parts<'s>, ContextError> {
    answer(context.product(name.into())).map(Parts::from)
}

pub(crate) fn call(
    context: &ContextObject<'_>,
    function: &str,
    inputs: &[TensorView<'_>],
) -> Result<Vec<OwnedTensor>, ContextError> {
    let outputs = answer(context.call(function.into(), inputs.into()))?;
    Ok(outputs.into_iter().map(OwnedTensor::from).collect())
}

pub(crate) fn emit_metric(context: &ContextObject<'_>, text: &str) -> Result<(), ContextError> {
    answer(context.emit_metric(text.into()))
}

pub(crate) fn progress(context: &ContextObject<'_>, done: u64, total: u64, what: &str) {
    context.progress(done, total, what.into());
}

pub(crate) fn cancelled(context: &ContextObject<'_>) -> bool {
    context.cancelled()
}

pub(crate) fn log(context: &ContextObject<'_>, level: LogLevel, text: &str) {
    context.log(level.code(), text.into());
}

pub(crate) fn emit_artifact(
    context: &ContextObject<'_>,
    suffix: &str,
    description: &[(&str, Scalar)],
    payload: &[u8],
) -> Result<(), ContextError> {
    let fields: Vec<RawField<'_>> =
        description.iter().map(|(key, value)| RawField { key: (*key).into(), value: value.into() }).collect();
    answer(context.emit_artifact(suffix.into(), fields.as_slice().into(), payload.into()))
}

pub(crate) fn emit_scalar(
    context: &ContextObject<'_>,
    key: &str,
    value: &Scalar,
) -> Result<(), ContextError> {
    answer(context.emit_scalar(key.into(), value.into()))
}

pub(crate) fn emit_file(
    context: &ContextObject<'_>,
    name: &str,
    media_type: &str,
    bytes: &[u8],
) -> Result<(), ContextError> {
    answer(context.emit_file(name.into(), media_type.into(), bytes.into()))
}

#[cfg(test)]
mod tests;
