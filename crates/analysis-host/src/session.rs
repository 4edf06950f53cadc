//! One call of one analysis: what it may ask for, and what it emits.

use std::cell::{OnceCell, RefCell};

use waycairn_analysis_api::host::{Host, Parts};
use waycairn_analysis_api::{
    ArrowStream, ContextError as HostError, ErrorKind, LogLevel, OwnedTensor, Scalar, TensorView,
};

use crate::declared::Declared;
use crate::host::AnalysisHost;
use crate::outputs::Collector;
use crate::products::Products;
use crate::stream;

pub(crate) struct Session<'a> {
    declared: &'a Declared,
    host: &'a dyn AnalysisHost,
    address: &'a str,
    batch: OnceCell<Result<Vec<OwnedTensor>, HostError>>,
    products: Products<'a, 'a>,
    collector: RefCell<Collector>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(declared: &'a Declared, host: &'a dyn AnalysisHost, address: &'a str) -> Self {
        Self {
            declared,
            host,
            address,
            batch: OnceCell::new(),
            products: Products::new(&declared.needs.products),
            collector: RefCell::new(Collector::default()),
        }
    }

    pub(crate) fn into_collector(self) -> Collector {
        self.collector.into_inner()
    }

    fn undeclared(&self, need: &str) -> HostError {
        let name = &self.declared.name;
        HostError::new(
            ErrorKind::Undeclared,
            format!("analysis `{name}` does not declare that it needs this; add `Needs::{need}`"),
        )
    }
}

impl Host for Session<'_> {
    fn weights(&self) -> Result<Vec<TensorView<'_>>, HostError> {
        let needs = &self.declared.needs;
        if needs.weights.is_empty() {
            return Err(self.undeclared("weights"));
        }
        let all = self.host.weights()?;
        Ok(all.iter().filter(|view| needs.wants_tensor(view.name())).copied().collect())
    }

    fn batch(&self) -> Result<Vec<TensorView<'_>>, HostError> {
        if !self.declared.needs.batch {
            return Err(self.undeclared("batch"));
        }
        let batch = self.batch.get_or_init(|| self.host.batch());
        match batch {
            Ok(tensors) => Ok(tensors.iter().map(OwnedTensor::view).collect()),
            Err(error) => Err(error.clone()),
        }
    }

    fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, HostError> {
        if !self.declared.needs.forward {
            return Err(self.undeclared("forward"));
        }
        let inputs: Vec<OwnedTensor> = inputs.iter().map(TensorView::to_owned).collect();
        self.host.forward(&inputs)
    }

    fn scalars(&self, expression: &str, keys: &[&str]) -> Result<ArrowStream, HostError> {
        let needs = &self.declared.needs;
        if let Some(key) = keys.iter().find(|key| !needs.wants_key(key)) {
            return Err(HostError::new(
                ErrorKind::Undeclared,
                format!(
                    "analysis `{}` does not declare the key `{key}`; add `Needs::scalars(\"{key}\")`",
                    self.declared.name
                ),
            ));
        }
        if needs.scalars.is_empty() {
            return Err(self.undeclared("scalars"));
        }
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        Ok(stream::export(self.host.scalars(expression, &keys)?))
    }

    fn log(&self, level: LogLevel, text: &str) {
        let (analysis, node) = (self.declared.name.as_str(), self.address);
        match level {
            LogLevel::Debug => tracing::debug!(analysis, node, "{text}"),
            LogLevel::Info => tracing::info!(analysis, node, "{text}"),
            LogLevel::Warn => tracing::warn!(analysis, node, "{text}"),
            LogLevel::Error => tracing::error!(analysis, node, "{text}"),
        }
    }

    fn emit_artifact(
        &self,
        suffix: &str,
        description: Vec<(String, Scalar)>,
        payload: &[u8],
    ) -> Result<(), HostError> {
        self.collector.borrow_mut().artifact(&self.declared.name, suffix, description, payload)
    }

    fn emit_scalar(&self, key: &str, value: Scalar) -> Result<(), HostError> {
        self.collector.borrow_mut().scalar(&self.declared.name, key, value)
    }

    fn emit_file(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<(), HostError> {
        self.collector.borrow_mut().file(name, media_type, bytes)
    }

    fn product(&self, name: &str) -> Result<Parts<'_>, HostError> {
        self.products
            .get(name, || self.host.product(name))
            .unwrap_or_else(|| Err(self.undeclared(&format!("product(\"{name}\")"))))
    }

    fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, HostError> {
        if !self.declared.needs.functions.iter().any(|known| known == function) {
            return Err(self.undeclared(&format!("function(\"{function}\")")));
        }
        let inputs: Vec<OwnedTensor> = inputs.iter().map(TensorView::to_owned).collect();
        self.host.call(function, &inputs)
    }

    fn emit_metric(&self, text: &str) -> Result<(), HostError> {
        self.collector.borrow_mut().metric(self.declared.kind, text)
    }

    fn progress(&self, done: u64, total: u64, what: &str) {
        self.host.progress(done, total, what);
    }

    fn cancelled(&self) -> bool {
        self.host.cancelled()
    }
}
