//! An experiment over tokens, as the trainer sees it.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use serde_json::{Value, json};
use waycairn_cache::Sources;
use waycairn_dag::Node;
use waycairn_store::ObjectReader;

use crate::any_experiment::{AnyExperiment, Facts, Load};
use crate::course::{Course, STEPS};
use crate::data::{
    AnyBatch, Data, DataError, Fingerprint, Reading, Source, Split, TextData, TextFingerprint, TextStream,
    Vocabulary,
};
use crate::error::TrainError;
use crate::experiment::{Cohort, Experiment, Initial, KeyValueCache, Tokens};
use crate::function::{Answer, Axis, Function, Inputs, Port, Signature, Values};
use crate::history;
use crate::learner::{Core, Held, Learner};
use crate::optimizer::OptimizerRule;
use crate::schema::Key;
use crate::settings::{Preset, Schema, Settings, SettingsError};

/// One value a token.
const CELLS: &[Axis] = &[Axis::Rows, Axis::Time];
const LOGITS: &[Axis] = &[Axis::Rows, Axis::Time, Axis::Vocabulary];

/// An [`Experiment`] whose model type is hidden.
pub(crate) struct Language<E>(pub(crate) Arc<E>);

impl<E> Clone for Language<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Opens the text that settings name, read with the vocabulary of a checkpoint where there is one of the same kind,
/// and checks that its parts are long enough.
fn open_text(settings: &Settings, kept: Option<&Vocabulary>) -> Result<TextData, TrainError> {
    let tokenizer = settings.text("data.tokenizer")?;
    let reading = match (kept.filter(|vocabulary| vocabulary.kind() == tokenizer), tokenizer) {
        (Some(vocabulary), _) => Reading::Given(vocabulary.clone()),
        (None, "byte") => Reading::Bytes,
        (None, _) => Reading::OwnCharacters,
    };
    let source = Source::parse(settings.text("data.source")?);
    let data = TextData::open(&source, reading, settings.number("data.split")?)?;
    let context = settings.integer("data.context")?;
    data.check_split(Split::Train, context)?;
    if settings.optional_integer("eval_every")?.is_some() {
        data.check_split(Split::Validation, context)?;
    }
    Ok(data)
}

/// Says what the batches of a run are a function of.
fn fingerprint(settings: &Settings, data: &TextData) -> Result<TextFingerprint, TrainError> {
    Ok(TextFingerprint {
        bytes: data.byte_len(),
        content_sha256: data.sha256(),
        tokenizer_sha256: data.vocabulary().digest().map_err(DataError::Vocabulary)?,
        tokens: data.len(),
        train_tokens: data.split_len(Split::Train),
        seed: settings.integer("seed")?,
        order: settings.text("data.order")?.to_owned(),
        context: settings.integer("data.context")?,
        batch_size: settings.integer("batch_size")?,
        accumulate: settings.integer("accumulate")?,
    })
}

/// The stream of an open text.
pub(crate) fn stream(settings: &Settings, data: Arc<TextData>) -> Result<TextStream, TrainError> {
    let fingerprint = fingerprint(settings, &data)?;
    Ok(TextStream::new(data, fingerprint, settings.integer("eval_batches")?))
}

impl<E: Experiment> AnyExperiment for Language<E> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn version(&self) -> &'static str {
        self.0.version()
    }

    fn keys(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn schema(&self) -> Schema {
        Schema::new(self.0.keys())
    }

    fn presets(&self) -> Vec<Preset> {
        self.0.presets()
    }

    fn functions(&self) -> Vec<Signature> {
        self.0.functions().iter().map(|function| function.signature().clone()).collect()
    }

    fn forward(&self) -> Signature {
        Signature {
            name: "forward",
            description: "logits of the next token",
            inputs: vec![Port { name: "tokens", values: Values::Tokens, axes: CELLS }],
            outputs: vec![Port { name: "logits", values: Values::Floats, axes: LOGITS }],
        }
    }

    fn samples(&self) -> bool {
        true
    }

    fn extent(&self, _: &Settings, _: &str) -> Option<usize> {
        None
    }

    fn sources(&self) -> Sources {
        self.0.sources()
    }

    fn cohort(&self) -> Option<Cohort> {
        None
    }

    fn check(&self, _: &Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    fn decides(&self, settings: &Settings) -> Result<Value, SettingsError> {
        let mut settings = json!(settings);
        if let Some(data) = settings.get_mut("data").and_then(Value::as_object_mut) {
            data.remove("source");
        }
        Ok(settings)
    }

    fn course(&self, settings: &Settings) -> Result<Course, SettingsError> {
        Course::of_settings(settings)
    }

    fn length(&self, _: &Settings) -> Option<&'static str> {
        Some(STEPS)
    }

    fn facts(&self, settings: &Settings) -> Result<Facts, TrainError> {
        let data = open_text(settings, None)?;
        let fingerprint = fingerprint(settings, &data)?;
        let examples = fingerprint.batch_size.saturating_mul(fingerprint.accumulate);
        let steps = settings.integer("steps")?;
        Ok(Facts {
            vocabulary: data.vocabulary().len(),
            counted: steps.saturating_mul(examples).saturating_mul(fingerprint.context),
            fingerprint: Fingerprint::Text(fingerprint),
        })
    }

    fn open(&self, settings: &Settings, kept: Option<&Vocabulary>) -> Result<Arc<dyn Data>, TrainError> {
        Ok(Arc::new(stream(settings, Arc::new(open_text(settings, kept)?))?))
    }

    fn load(&self, settings: &Settings, vocabulary: usize) -> Result<Load, SettingsError> {
        let demand = self.0.demand(settings, vocabulary)?;
        let context = settings.integer("data.context")? as f64;
        let rows = settings.integer("batch_size")? as f64;
        let mut batch = vec!["data.context", "batch_size", "accumulate"];
        batch.extend(demand.settings.iter().copied());
        let mut reading = vec!["data.context"];
        reading.extend(demand.settings);
        Ok(Load {
            parameters: demand.parameters,
            row: demand.activations_per_token * context,
            rows,
            // Inputs and targets of the whole step.
            data: 2.0 * rows * context * settings.integer("accumulate")? as f64,
            settings: batch,
            reading_settings: reading,
            block: settings.size("batch_size")?,
        })
    }

    fn learner(
        &self,
        settings: &Settings,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Box<dyn Learner>, SettingsError> {
        Ok(Box::new(Held::new(self.clone(), settings, vocabulary, device)?))
    }

    fn history(&self, reader: &ObjectReader, node: &Node, _: &Settings) -> Result<Value, TrainError> {
        history::of_steps(reader, node)
    }
}

impl<E: Experiment> Core for Language<E> {
    type Model = E::Model;

    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        device: &Device,
    ) -> Result<E::Model, SettingsError> {
        self.0.build(settings, vocabulary, &Initial::new(settings.integer("seed")?, device))
    }

    fn optimizer(&self, settings: &Settings) -> Result<OptimizerRule, SettingsError> {
        Ok(Course::of_settings(settings)?.optimizer)
    }

    fn loss(&self, model: &E::Model, batch: &AnyBatch, device: &Device) -> Tensor<1> {
        match batch {
            AnyBatch::Tokens(batch) => self.0.loss(model, Tokens::on(batch, device)),
            // A stream gives batches of its own kind; a loss that is not finite ends a run.
            AnyBatch::Rows(_) => Tensor::full([1], f32::NAN, device),
        }
    }

    fn evaluate(
        &self,
        model: &E::Model,
        batches: &mut dyn Iterator<Item = &AnyBatch>,
        device: &Device,
    ) -> Vec<(&'static str, f64)> {
        let (mut sum, mut count) = (0.0, 0.0);
        for batch in batches {
            let loss = self.loss(model, batch, device);
            let counted = batch.counted() as f64;
            sum += f64::from(loss.into_scalar::<f32>()) * counted;
            count += counted;
        }
        vec![("loss", sum / count)]
    }

    fn functions(&self) -> Vec<Function<E::Model>> {
        self.0.functions()
    }

    fn forward(&self, model: &E::Model, inputs: &Inputs<'_>) -> Option<Vec<Answer>> {
        let tokens: Tensor<2, Int> = inputs.tokens("tokens")?;
        Some(vec![Answer::new(self.0.forward(model, tokens))])
    }

    fn next_logits(&self, model: &E::Model, tokens: &[u32], cache: &mut KeyValueCache) -> Option<Vec<f32>> {
        self.0.next_logits(model, tokens, cache)
    }
}
