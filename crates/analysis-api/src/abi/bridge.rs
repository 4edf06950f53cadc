//! The host's implementation of the context object: plain Rust values behind it.

use abi_stable::std_types::{RErr, ROk, RResult, RSlice, RStr, RVec};

use super::arrow::ArrowArrayStream;
use super::{HostContext, RawFailure, RawField, RawNode, RawProduct, RawScalar, RawTensor, TensorView};
use crate::context::LogLevel;
use crate::error::{ContextError, Failure};
use crate::export::guard_quietly;
use crate::host::{Facts, Host};
use crate::stream::ArrowStream;

/// Borrowed for one call of one analysis.
pub(super) struct Bridge<'a> {
    pub(super) facts: &'a Facts,
    pub(super) host: &'a dyn Host,
}

/// A panic in the host's code must not cross either: the frame above is the plugin's.
pub(super) fn across<T>(body: impl FnOnce() -> Result<T, ContextError>) -> RResult<T, RawFailure> {
    match guard_quietly(|| body().map_err(Failure::from)) {
        Ok(value) => ROk(value),
        Err(failure) => RErr(failure.into()),
    }
}

impl HostContext for Bridge<'_> {
    fn node(&self) -> RawNode<'_> {
        RawNode {
            name: self.facts.name.as_str().into(),
            nonce: self.facts.nonce.as_str().into(),
            address: self.facts.address.as_str().into(),
            seq: self.facts.seq,
        }
    }

    fn parents(&self) -> RVec<RStr<'_>> {
        self.facts.parents.iter().map(|parent| RStr::from(parent.as_str())).collect()
    }

    fn settings(&self) -> RStr<'_> {
        self.facts.settings.as_str().into()
    }

    fn experiment_settings(&self) -> RStr<'_> {
        self.facts.experiment_settings.as_str().into()
    }

    fn weights(&self) -> RResult<RVec<TensorView<'_>>, RawFailure> {
        across(|| self.host.weights()).map(RVec::from)
    }

    fn batch(&self) -> RResult<RVec<TensorView<'_>>, RawFailure> {
        across(|| self.host.batch()).map(RVec::from)
    }

    fn forward(&self, inputs: RSlice<'_, TensorView<'_>>) -> RResult<RVec<RawTensor>, RawFailure> {
        across(|| {
            let outputs = self.host.forward(inputs.as_slice())?;
            Ok(outputs.into_iter().map(RawTensor::from).collect::<RVec<_>>())
        })
    }

    fn scalars(
        &self,
        expression: RStr<'_>,
        keys: RSlice<'_, RStr<'_>>,
    ) -> RResult<ArrowArrayStream, RawFailure> {
        across(|| {
            let keys: Vec<&str> = keys.as_slice().iter().map(RStr::as_str).collect();
            self.host.scalars(expression.as_str(), &keys).map(ArrowStream::into_raw)
        })
    }

    fn log(&self, level: u8, text: RStr<'_>) {
        let _nothing: RResult<(), RawFailure> = across(|| {
            self.host.log(LogLevel::from_code(level), text.as_str());
            Ok(())
        });
    }

    fn emit_artifact(
        &self,
        suffix: RStr<'_>,
        description: RSlice<'_, RawField<'_>>,
        payload: RSlice<'_, u8>,
    ) -> RResult<(), RawFailure> {
        across(|| {
            let fields = description
                .as_slice()
                .iter()
                .map(|field| (field.key.as_str().to_owned(), (&field.value).into()))
                .collect();
            self.host.emit_artifact(suffix.as_str(), fields, payload.as_slice())
        })
    }

    fn emit_scalar(&self, key: RStr<'_>, value: RawScalar<'_>) -> RResult<(), RawFailure> {
        across(|| self.host.emit_scalar(key.as_str(), (&value).into()))
    }

    fn emit_file(
        &self,
        name: RStr<'_>,
        media_type: RStr<'_>,
        bytes: RSlice<'_, u8>,
    ) -> RResult<(), RawFailure> {
        across(|| self.host.emit_file(name.as_str(), media_type.as_str(), bytes.as_slice()))
    }

    fn study(&self) -> RStr<'_> {
        self.facts.study.as_str().into()
    }

    fn product(&self, name: RStr<'_>) -> RResult<RawProduct<'_>, RawFailure> {
        across(|| self.host.product(name.as_str()).map(RawProduct::from))
    }

    fn call(
        &self,
        function: RStr<'_>,
        inputs: RSlice<'_, TensorView<'_>>,
    ) -> RResult<RVec<RawTensor>, RawFailure> {
        across(|| {
            let outputs = self.host.call(function.as_str(), inputs.as_slice())?;
            Ok(outputs.into_iter().map(RawTensor::from).collect::<RVec<_>>())
        })
    }

    fn emit_metric(&self, text: RStr<'_>) -> RResult<(), RawFailure> {
        across(|| self.host.emit_metric(text.as_str()))
    }

    fn progress(&self, done: u64, total: u64, what: RStr<'_>) {
        let _nothing: RResult<(), RawFailure> = across(|| {
            self.host.progress(done, total, what.as_str());
            Ok(())
        });
    }

    fn cancelled(&self) -> bool {
        // A host that cannot say whether it wants an end does not want one.
        across(|| Ok(self.host.cancelled())).unwrap_or(false)
    }
}
