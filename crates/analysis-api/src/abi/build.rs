//! Products at the boundary: the functions of a library, and the context of a builder.

use abi_stable::sabi_trait;
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{RResult, RSlice, RSliceMut, RStr, RString, RVec};
use serde::Serialize;
use serde_json::Value;

use super::bridge::across as across_host;
use super::{RawFailure, RawProduct, RawTensor, TensorView, across, answer};
use crate::builder::BuildContext;
use crate::context::LogLevel;
use crate::error::{ContextError, Failure};
use crate::export::{Export, ProductEntry};
use crate::host::{BuildHost, Parts};
use crate::product::Study;
use crate::view::OwnedTensor;

/// What a host offers to a builder. Methods are added after the last prefix field alone, with a default body that answers
/// as a host without them would.
///
/// The lifetime of what `array` answers is that of the borrow of the object: an exclusive slice of the host's mapping, handed
/// out once for each array and valid until the call of the builder returns. On both sides it is a plain `&mut [u8]`, so
/// the compilers of both sides see to that.
#[sabi_trait]
pub trait HostBuild {
    fn settings(&self) -> RStr<'_>;
    fn product(&self, name: RStr<'_>) -> RResult<RawProduct<'_>, RawFailure>;
    fn weights(&self) -> RResult<RVec<TensorView<'_>>, RawFailure>;
    fn batch(&self) -> RResult<RVec<TensorView<'_>>, RawFailure>;
    fn forward(&self, inputs: RSlice<'_, TensorView<'_>>) -> RResult<RVec<RawTensor>, RawFailure>;
    fn call(
        &self,
        function: RStr<'_>,
        inputs: RSlice<'_, TensorView<'_>>,
    ) -> RResult<RVec<RawTensor>, RawFailure>;
    fn array(
        &self,
        name: RStr<'_>,
        dtype: RStr<'_>,
        shape: RSlice<'_, usize>,
    ) -> RResult<RSliceMut<'_, u8>, RawFailure>;
    fn json(&self, name: RStr<'_>, text: RStr<'_>) -> RResult<(), RawFailure>;
    fn metadata(&self, key: RStr<'_>, text: RStr<'_>) -> RResult<(), RawFailure>;
    fn progress(&self, done: u64, total: u64, what: RStr<'_>);
    fn log(&self, level: u8, text: RStr<'_>);
    #[sabi(last_prefix_field)]
    fn cancelled(&self) -> bool;
}

/// The context of a builder as it crosses: a borrowed object and its table of methods.
pub type BuildObject<'a> = HostBuild_TO<'a, RRef<'a, ()>>;

// The functions of a library.

type Text = RResult<RString, RawFailure>;

fn entry<L: Export>(index: usize) -> Result<&'static ProductEntry, Failure> {
    L::PRODUCTS.get(index).ok_or_else(|| Failure::invalid(format!("this library has no product {index}")))
}

fn write(what: &str, value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::invalid(format!("{what} does not serialise: {error}")))
}

fn read(what: &str, text: RStr<'_>) -> Result<Value, Failure> {
    serde_json::from_str(text.as_str())
        .map_err(|error| Failure::invalid(format!("the host's {what} are no JSON: {error}")))
}

pub(super) extern "C" fn settings<L: Export>() -> Text {
    across(|| match L::SETTINGS {
        Some(defaults) => write("the settings", &defaults()),
        None => Ok("{}".to_owned()),
    })
}

pub(super) extern "C" fn count<L: Export>() -> usize {
    L::PRODUCTS.len()
}

pub(super) extern "C" fn declare<L: Export>(index: usize) -> Text {
    across(|| write("the declaration", &(entry::<L>(index)?.declare)()))
}

pub(super) extern "C" fn select<L: Export>(
    index: usize,
    training: RStr<'_>,
    analysis: RStr<'_>,
    member: RStr<'_>,
) -> Text {
    across(|| {
        let training = read("training settings", training)?;
        let analysis = read("analysis settings", analysis)?;
        let study = Study::new(&training, &analysis, member.as_str());
        write("what it selected", &(entry::<L>(index)?.select)(&study)?)
    })
}

pub(super) extern "C" fn estimate<L: Export>(index: usize, selected: RStr<'_>) -> Text {
    across(|| {
        let selected = read("settings", selected)?;
        write("the estimate", &(entry::<L>(index)?.estimate)(&selected)?)
    })
}

pub(super) extern "C" fn check<L: Export>(index: usize, selected: RStr<'_>) -> Text {
    across(|| {
        let selected = read("settings", selected)?;
        write("what it checked", &(entry::<L>(index)?.check)(&selected)?)
    })
}

pub(super) extern "C" fn build<L: Export>(index: usize, context: BuildObject<'_>) -> RResult<(), RawFailure> {
    across(|| {
        let context = BuildContext::new(context)?;
        (entry::<L>(index)?.build)(&context)?;
        Ok(())
    })
}

// The host's implementation of the context object.

/// Borrowed for one call of one builder.
pub(super) struct BuildBridge<'a> {
    pub(super) host: &'a dyn BuildHost,
}

fn tensors(outputs: Vec<OwnedTensor>) -> RVec<RawTensor> {
    outputs.into_iter().map(RawTensor::from).collect()
}

impl HostBuild for BuildBridge<'_> {
    fn settings(&self) -> RStr<'_> {
        self.host.settings().into()
    }

    fn product(&self, name: RStr<'_>) -> RResult<RawProduct<'_>, RawFailure> {
        across_host(|| self.host.product(name.as_str()).map(RawProduct::from))
    }

    fn weights(&self) -> RResult<RVec<TensorView<'_>>, RawFailure> {
        across_host(|| self.host.weights()).map(RVec::from)
    }

    fn batch(&self) -> RResult<RVec<TensorView<'_>>, RawFailure> {
        across_host(|| self.host.batch()).map(RVec::from)
    }

    fn forward(&self, inputs: RSlice<'_, TensorView<'_>>) -> RResult<RVec<RawTensor>, RawFailure> {
        across_host(|| self.host.forward(inputs.as_slice()).map(tensors))
    }

    fn call(
        &self,
        function: RStr<'_>,
        inputs: RSlice<'_, TensorView<'_>>,
    ) -> RResult<RVec<RawTensor>, RawFailure> {
        across_host(|| self.host.call(function.as_str(), inputs.as_slice()).map(tensors))
    }

    fn array(
        &self,
        name: RStr<'_>,
        dtype: RStr<'_>,
        shape: RSlice<'_, usize>,
    ) -> RResult<RSliceMut<'_, u8>, RawFailure> {
        across_host(|| self.host.array(name.as_str(), dtype.as_str(), shape.as_slice()).map(RSliceMut::from))
    }

    fn json(&self, name: RStr<'_>, text: RStr<'_>) -> RResult<(), RawFailure> {
        across_host(|| self.host.json(name.as_str(), text.as_str()))
    }

    fn metadata(&self, key: RStr<'_>, text: RStr<'_>) -> RResult<(), RawFailure> {
        across_host(|| self.host.metadata(key.as_str(), text.as_str()))
    }

    fn progress(&self, done: u64, total: u64, what: RStr<'_>) {
        let _nothing: RResult<(), RawFailure> = across_host(|| {
            self.host.progress(done, total, what.as_str());
            Ok(())
        });
    }

    fn log(&self, level: u8, text: RStr<'_>) {
        let _nothing: RResult<(), RawFailure> = across_host(|| {
            self.host.log(LogLevel::from_code(level), text.as_str());
            Ok(())
        });
    }

    fn cancelled(&self) -> bool {
        across_host(|| Ok(self.host.cancelled())).unwrap_or(false)
    }
}

// What the rest of the crate calls on the context of a builder.

pub(crate) fn settings_of<'s>(context: &'s BuildObject<'_>) -> &'s str {
    context.settings().as_str()
}

pub(crate) fn product<'s>(context: &'s BuildObject<'_>, name: &str) -> Result<Parts<'s>, ContextError> {
    answer(context.product(name.into())).map(Parts::from)
}

pub(crate) fn weights<'s>(context: &'s BuildObject<'_>) -> Result<Vec<TensorView<'s>>, ContextError> {
    answer(context.weights()).map(RVec::into_vec)
}

pub(crate) fn batch<'s>(context: &'s BuildObject<'_>) -> Result<Vec<TensorView<'s>>, ContextError> {
    answer(context.batch()).map(RVec::into_vec)
}

pub(crate) fn forward(
    context: &BuildObject<'_>,
    inputs: &[TensorView<'_>],
) -> Result<Vec<OwnedTensor>, ContextError> {
    let outputs = answer(context.forward(inputs.into()))?;
    Ok(outputs.into_iter().map(OwnedTensor::from).collect())
}

pub(crate) fn call(
    context: &BuildObject<'_>,
    function: &str,
    inputs: &[TensorView<'_>],
) -> Result<Vec<OwnedTensor>, ContextError> {
    let outputs = answer(context.call(function.into(), inputs.into()))?;
    Ok(outputs.into_iter().map(OwnedTensor::from).collect())
}

pub(crate) fn array<'s>(
    context: &'s BuildObject<'_>,
    name: &str,
    dtype: &str,
    shape: &[usize],
) -> Result<&'s mut [u8], ContextError> {
    answer(context.array(name.into(), dtype.into(), shape.into())).map(RSliceMut::into_mut_slice)
}

pub(crate) fn json(context: &BuildObject<'_>, name: &str, text: &str) -> Result<(), ContextError> {
    answer(context.json(name.into(), text.into()))
}

pub(crate) fn metadata(context: &BuildObject<'_>, key: &str, text: &str) -> Result<(), ContextError> {
    answer(context.metadata(key.into(), text.into()))
}

pub(crate) fn progress(context: &BuildObject<'_>, done: u64, total: u64, what: &str) {
    context.progress(done, total, what.into());
}

pub(crate) fn log(context: &BuildObject<'_>, level: LogLevel, text: &str) {
    context.log(level.code(), text.into());
}

pub(crate) fn cancelled(context: &BuildObject<'_>) -> bool {
    context.cancelled()
}
