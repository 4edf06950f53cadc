//! An experiment over rows of numbers, as the trainer sees it.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};
use waycairn_cache::Sources;
use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::any_experiment::{AnyExperiment, Facts, Load};
use crate::course::{Course, Selection};
use crate::data::{
    AnyBatch, Data, DataError, EpochOrder, Fingerprint, RowFingerprint, RowStream, Vocabulary, epoch_steps,
};
use crate::error::TrainError;
use crate::experiment::{Cohort, Initial, KeyValueCache};
use crate::function::{Answer, Function, Inputs, Signature};
use crate::history;
use crate::learner::{Core, Held, Learner};
use crate::memory;
use crate::optimizer::OptimizerRule;
use crate::retention::Retention;
use crate::row_experiment::{RowExperiment, RowTensors};
use crate::schedule::Schedule;
use crate::schema::Key;
use crate::settings::{Preset, Schema, Settings, SettingsError};

/// A [`RowExperiment`] whose model type is hidden.
pub(crate) struct OfRows<E>(pub(crate) Arc<E>);

impl<E> Clone for OfRows<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: RowExperiment> OfRows<E> {
    fn fingerprint(&self, settings: &Settings) -> Result<RowFingerprint, SettingsError> {
        let recipe = json!({ "experiment": self.0.name(), "recipe": self.0.recipe(settings)? });
        let text = serde_jcs::to_vec(&recipe).map_err(SettingsError::NotCanonical)?;
        Ok(RowFingerprint {
            recipe_sha256: Digest::of(&text),
            rows: self.0.size(settings)?,
            batch_size: self.0.course(settings)?.batch_size,
        })
    }

    /// What the loop goes by.
    fn of_epochs(&self, settings: &Settings) -> Result<Course, SettingsError> {
        let course = self.0.course(settings)?;
        let epoch = epoch_steps(self.0.size(settings)?, course.batch_size);
        Ok(Course {
            seed: course.seed,
            steps: epoch.saturating_mul(course.epochs),
            accumulate: 1,
            clip: course.clip,
            // The training loss of an epoch is that of all its steps.
            report_every: 1,
            eval_every: Some(epoch),
            checkpoint_every: Some(epoch),
            skip_nonfinite: false,
            verbose: course.verbose,
            selection: if course.best { Selection::Best } else { Selection::Last },
            schedule: Schedule::constant(course.learning_rate),
            retention: Retention::of_selection(course.best),
            optimizer: course.optimizer,
        })
    }
}

impl<E: RowExperiment> AnyExperiment for OfRows<E> {
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
        Schema::alone(self.0.keys())
    }

    fn presets(&self) -> Vec<Preset> {
        self.0.presets()
    }

    fn functions(&self) -> Vec<Signature> {
        self.0.functions().iter().map(|function| function.signature().clone()).collect()
    }

    fn forward(&self) -> Signature {
        self.0.forward().signature().clone()
    }

    fn samples(&self) -> bool {
        false
    }

    fn extent(&self, settings: &Settings, name: &str) -> Option<usize> {
        self.0.extent(settings, name)
    }

    fn sources(&self) -> Sources {
        self.0.sources()
    }

    fn cohort(&self) -> Option<Cohort> {
        self.0.cohort()
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        self.0.check(settings)
    }

    fn decides(&self, settings: &Settings) -> Result<Value, SettingsError> {
        self.0.decides(settings)
    }

    fn course(&self, settings: &Settings) -> Result<Course, SettingsError> {
        self.of_epochs(settings)
    }

    /// No experiment says which of its settings that is: it is the one that the passes over the rows follow.
    fn length(&self, settings: &Settings) -> Option<&'static str> {
        let epochs = self.0.course(settings).ok()?.epochs;
        let twice = epochs.checked_mul(2)?;
        let follows = |path: &str| -> Option<bool> {
            let mut longer = settings.clone();
            longer.set(path, &twice.to_string()).ok()?;
            Some(settings.integer(path).ok()? == epochs && self.0.course(&longer).ok()?.epochs == twice)
        };
        let keys = self.0.keys();
        keys.iter().map(Key::path).find(|path| follows(path) == Some(true))
    }

    fn facts(&self, settings: &Settings) -> Result<Facts, TrainError> {
        let fingerprint = self.fingerprint(settings)?;
        let counted = self.0.course(settings)?.epochs.saturating_mul(fingerprint.rows);
        Ok(Facts { vocabulary: 0, counted, fingerprint: Fingerprint::Rows(fingerprint) })
    }

    fn open(&self, settings: &Settings, _: Option<&Vocabulary>) -> Result<Arc<dyn Data>, TrainError> {
        // Before anything of the size of the data is asked for.
        memory::check(self, settings, 0, memory::Use::Training)?;
        let (fingerprint, rows) = (self.fingerprint(settings)?, self.0.draw(settings)?);
        let course = self.0.course(settings)?;
        let counts = |columns: &[crate::data::Column]| -> Vec<usize> {
            columns.iter().map(crate::data::Column::rows).collect()
        };
        let wrong =
            |what: &str| DataError::Rows { experiment: self.0.name().to_owned(), what: what.to_owned() };
        for (what, columns) in [("train on", &rows.train), ("validate", &rows.validation)] {
            let counts = counts(columns);
            if counts.first().is_none_or(|count| *count == 0) || counts.windows(2).any(|two| two[0] != two[1])
            {
                return Err(wrong(&format!(
                    "the rows to {what} are none, or columns of them differ in length"
                ))
                .into());
            }
        }
        if counts(&rows.train).first().is_none_or(|count| *count as u64 != fingerprint.rows) {
            return Err(wrong("there are not as many rows as the settings say").into());
        }
        let (experiment, of) = (self.clone(), settings.clone());
        let order: EpochOrder = Arc::new(move |epoch| experiment.0.order(&of, epoch));
        Ok(Arc::new(RowStream::new(rows, fingerprint, course.evaluation_batch_size.max(1), order)))
    }

    fn load(&self, settings: &Settings, _: usize) -> Result<Load, SettingsError> {
        let demand = self.0.demand(settings)?;
        let course = self.0.course(settings)?;
        Ok(Load {
            parameters: demand.parameters,
            row: demand.activations_per_token,
            rows: course.batch_size as f64,
            data: demand.data,
            reading_settings: demand.settings.clone(),
            settings: demand.settings,
            block: course.evaluation_batch_size,
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

    fn history(&self, reader: &ObjectReader, node: &Node, settings: &Settings) -> Result<Value, TrainError> {
        let course = self.0.course(settings)?;
        let rows = self.0.size(settings)?;
        let epoch = epoch_steps(rows, course.batch_size);
        let mut sums = vec![0.0; usize::try_from(course.epochs).unwrap_or_default()];
        for (seq, loss) in history::recorded(reader, node, history::LOSS)? {
            let counted = course.batch_size.min(rows - (seq % epoch) * course.batch_size);
            if let Some(sum) = sums.get_mut((seq / epoch) as usize) {
                *sum += loss * counted as f64;
            }
        }
        let train_loss: Vec<Value> = sums.iter().map(|sum| history::finite(sum / rows as f64)).collect();
        let validation = history::recorded(reader, node, history::VALIDATION)?;
        let mut figures: Vec<serde_json::Map<String, Value>> = validation
            .iter()
            .map(|(_, loss)| [(self.0.loss_name().to_owned(), history::finite(*loss))].into_iter().collect())
            .collect();
        for name in self.0.figures() {
            let values = history::recorded(reader, node, &format!("val/{name}"))?;
            for (figures, (_, value)) in figures.iter_mut().zip(values) {
                figures.insert((*name).to_owned(), history::finite(value));
            }
        }
        let selected = if course.best {
            history::lowest(&validation).map_or(course.epochs, |seq| seq / epoch + 1)
        } else {
            course.epochs
        };
        Ok(json!({
            "train_loss": train_loss,
            "validation": figures,
            "rows_per_epoch": rows,
            "global_batch_size": course.batch_size,
            "world_size": 1,
            "selected_epoch": selected,
        }))
    }
}

impl<E: RowExperiment> Core for OfRows<E> {
    type Model = E::Model;

    fn build(&self, settings: &Settings, _: usize, device: &Device) -> Result<E::Model, SettingsError> {
        self.0.build(settings, &Initial::new(self.0.course(settings)?.seed, device))
    }

    fn optimizer(&self, settings: &Settings) -> Result<OptimizerRule, SettingsError> {
        Ok(self.0.course(settings)?.optimizer)
    }

    fn loss(&self, model: &E::Model, batch: &AnyBatch, device: &Device) -> Tensor<1> {
        let loss = match batch {
            AnyBatch::Rows(batch) => self.0.loss(model, &RowTensors { batch, device }),
            AnyBatch::Tokens(_) => None,
        };
        // What asks for a column that is not there has no loss; one that is not finite ends a run.
        loss.unwrap_or_else(|| Tensor::full([1], f32::NAN, device))
    }

    fn evaluate(
        &self,
        model: &E::Model,
        batches: &mut dyn Iterator<Item = &AnyBatch>,
        device: &Device,
    ) -> Vec<(&'static str, f64)> {
        let mut rows = batches.filter_map(|batch| match batch {
            AnyBatch::Rows(batch) => Some(RowTensors { batch, device }),
            AnyBatch::Tokens(_) => None,
        });
        self.0.evaluate(model, &mut rows)
    }

    fn functions(&self) -> Vec<Function<E::Model>> {
        self.0.functions()
    }

    fn forward(&self, model: &E::Model, inputs: &Inputs<'_>) -> Option<Vec<Answer>> {
        self.0.forward().call(model, inputs)
    }

    fn next_logits(&self, _: &E::Model, _: &[u32], _: &mut KeyValueCache) -> Option<Vec<f32>> {
        None
    }
}
