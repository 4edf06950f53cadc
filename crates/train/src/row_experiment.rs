//! Experiments over rows of numbers that they draw themselves, trained in epochs.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::{Value, json};
use waycairn_cache::Sources;
use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::course::{Course, OptimizerRule, Selection};
use crate::data::{
    AnyBatch, Data, DataError, EpochOrder, Fingerprint, RowBatch, RowFingerprint, RowStream, Rows,
    Vocabulary, epoch_steps,
};
use crate::error::TrainError;
use crate::experiment::{AnyExperiment, Cohort, Demand, Facts, Initial, KeyValueCache, Load};
use crate::function::{Answer, Function, Inputs, Signature};
use crate::history;
use crate::learner::{Core, Held, Learner};
use crate::memory;
use crate::retention::Retention;
use crate::schedule::Schedule;
use crate::schema::Key;
use crate::settings::{Preset, Schema, Settings, SettingsError};

/// A model over rows of numbers, with data of its own.
///
/// The trainer records, saves, resumes and branches it as it does an [`Experiment`](crate::Experiment) over tokens; a step
/// is a batch of rows, and each epoch has every row once. After each epoch the validation rows are evaluated and a
/// checkpoint is saved.
///
/// # Contract
///
/// - [`draw`](Self::draw) and [`order`](Self::order) are functions of the settings: the same rows in the same order, on
///   every machine.
/// - [`recipe`](Self::recipe) holds all that the rows follow from: data of the same recipe is the same data.
/// - [`build`](Self::build) makes every parameter through [`Initial`], and gives each the dotted path that it has in the
///   module.
/// - [`loss`](Self::loss) is a function of the model and the batch, and nothing crosses rows. Randomness comes from the
///   tensors' own device.
/// - A change that changes what is computed raises [`version`](Self::version), or is one of [`sources`](Self::sources).
///
/// ```
/// use burn::module::{Module, Param};
/// use burn::tensor::Tensor;
/// use waycairn_train::{
///     Column, Demand, EpochCourse, Function, Initial, Key, OptimizerKind, OptimizerRule, RowExperiment, RowTensors, Rows,
///     Settings, SettingsError, TrainError, serde_json::{Value, json},
/// };
///
/// /// Fits a line.
/// #[derive(Debug)]
/// struct Line;
///
/// #[derive(Module, Debug)]
/// struct Slope {
///     slope: Param<Tensor<2>>,
///     offset: Param<Tensor<1>>,
/// }
///
/// impl RowExperiment for Line {
///     type Model = Slope;
///
///     fn name(&self) -> &'static str { "line" }
///     fn version(&self) -> &'static str { "1" }
///     fn keys(&self) -> Vec<Key> { vec![Key::integer("rows", 64).at_least(1)] }
///
///     fn recipe(&self, settings: &Settings) -> Result<Value, SettingsError> {
///         Ok(json!({ "rows": settings.integer("rows")? }))
///     }
///
///     fn size(&self, settings: &Settings) -> Result<u64, SettingsError> { settings.integer("rows") }
///
///     fn draw(&self, settings: &Settings) -> Result<Rows, TrainError> {
///         let rows = settings.size("rows")?;
///         let columns = |from: usize| {
///             let x: Vec<f32> = (from..from + rows).map(|row| row as f32 / rows as f32).collect();
///             let y = x.iter().map(|x| 3.0 * x + 1.0).collect();
///             vec![Column { name: "x", width: 1, values: x }, Column { name: "y", width: 0, values: y }]
///         };
///         Ok(Rows { train: columns(0), validation: columns(7) })
///     }
///
///     fn order(&self, settings: &Settings, _: u64) -> Vec<u32> {
///         (0..settings.integer("rows").unwrap_or_default() as u32).collect()
///     }
///
///     fn course(&self, _: &Settings) -> Result<EpochCourse, SettingsError> {
///         let optimizer = OptimizerRule {
///             kind: OptimizerKind::Adam, betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0, decay_vectors: true,
///         };
///         Ok(EpochCourse { seed: 0, epochs: 2, batch_size: 16, learning_rate: 0.1, optimizer, ..EpochCourse::default() })
///     }
///
///     fn build(&self, _: &Settings, initial: &Initial<'_>) -> Result<Slope, SettingsError> {
///         Ok(Slope { slope: initial.zeros("slope", [1, 1]), offset: initial.zeros("offset", [1]) })
///     }
///
///     fn demand(&self, _: &Settings) -> Result<Demand, SettingsError> { Ok(Demand::default()) }
///
///     fn loss(&self, model: &Slope, rows: &RowTensors<'_>) -> Option<Tensor<1>> {
///         let (x, y): (Tensor<2>, Tensor<1>) = (rows.column("x")?, rows.column("y")?);
///         let line = x.matmul(model.slope.val()) + model.offset.val().unsqueeze();
///         Some((line.flatten(0, 1) - y).square().mean())
///     }
///
///     fn forward(&self) -> Function<Slope> {
///         Function::new("forward", "nothing yet", |_: &Slope, _| Some(Vec::new()))
///     }
/// }
/// # assert_eq!(Line.name(), "line");
/// ```
pub trait RowExperiment: Send + Sync + 'static {
    /// The Burn module.
    type Model: Module + 'static;

    /// Returns the name, recorded as `_x_job` and chosen with `--experiment`.
    fn name(&self) -> &'static str;

    /// Returns the version of the computation.
    fn version(&self) -> &'static str;

    /// Returns all settings of the experiment: the trainer adds none.
    fn keys(&self) -> Vec<Key>;

    /// Returns the presets, the default one first; none by default.
    fn presets(&self) -> Vec<Preset> {
        Vec::new()
    }

    /// Returns the source files that decide its numbers, as [`Experiment::sources`](crate::Experiment::sources) does.
    fn sources(&self) -> Sources {
        Sources::new(&[])
    }

    /// Refuses settings that contradict each other; by default none do.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], with what to change.
    fn check(&self, _settings: &Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Returns what the members of a study's cohort differ in, besides their seeds; by default nothing.
    fn cohort(&self) -> Option<Cohort> {
        None
    }

    /// Returns what of the settings decides the model; by default all of them.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for settings that cannot be used.
    fn decides(&self, settings: &Settings) -> Result<Value, SettingsError> {
        Ok(json!(settings))
    }

    /// Returns what the rows follow from.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for settings that cannot be used.
    fn recipe(&self, settings: &Settings) -> Result<Value, SettingsError>;

    /// Returns the number of rows that are trained on, without drawing them.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for settings that cannot be used.
    fn size(&self, settings: &Settings) -> Result<u64, SettingsError>;

    /// Draws the rows.
    ///
    /// # Errors
    ///
    /// [`TrainError`] for settings that no rows can be drawn with.
    fn draw(&self, settings: &Settings) -> Result<Rows, TrainError>;

    /// Returns the order of the rows in an epoch, from 0: each row once.
    fn order(&self, settings: &Settings, epoch: u64) -> Vec<u32>;

    /// Returns how it is trained.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for settings that cannot be used.
    fn course(&self, settings: &Settings) -> Result<EpochCourse, SettingsError>;

    /// Makes a model with initial weights.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] for settings that contradict each other.
    fn build(&self, settings: &Settings, initial: &Initial<'_>) -> Result<Self::Model, SettingsError>;

    /// Says what a model of these settings takes; its activations are those of a row.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] for settings that contradict each other.
    fn demand(&self, settings: &Settings) -> Result<Demand, SettingsError>;

    /// Computes the mean loss over the rows; `None` only if it asks for a column that the data does not have.
    fn loss(&self, model: &Self::Model, rows: &RowTensors<'_>) -> Option<Tensor<1>>;

    /// What the loss is called in a model's history.
    fn loss_name(&self) -> &'static str {
        "loss"
    }

    /// Evaluates the model on all rows of some batches, each figure by its name, `loss` first; by default the mean loss
    /// alone. They are recorded as `val/NAME`.
    fn evaluate(
        &self,
        model: &Self::Model,
        batches: &mut dyn Iterator<Item = RowTensors<'_>>,
    ) -> Vec<(&'static str, f64)> {
        let (mut sum, mut count) = (0.0, 0.0);
        for batch in batches {
            let loss = self.loss(model, &batch).map_or(f64::NAN, |loss| f64::from(loss.into_scalar::<f32>()));
            sum += loss * batch.rows() as f64;
            count += batch.rows() as f64;
        }
        vec![("loss", sum / count)]
    }

    /// The names of what [`evaluate`](Self::evaluate) gives besides the loss, in its order.
    fn figures(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the model computes of its inputs, for analyses and products: a function called `forward`.
    fn forward(&self) -> Function<Self::Model>;

    /// Returns what analyses and products may call by name besides; nothing by default.
    fn functions(&self) -> Vec<Function<Self::Model>> {
        Vec::new()
    }

    /// Works out the extent of an axis [`Axis::Named`](crate::Axis::Named); by default there is none.
    fn extent(&self, _settings: &Settings, _name: &str) -> Option<usize> {
        None
    }
}

/// How a model of rows is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochCourse {
    /// Seed of initial weights and dropout.
    pub seed: u64,
    /// Passes over the rows.
    pub epochs: u64,
    /// Rows of one step.
    pub batch_size: u64,
    /// Rows that are evaluated at once.
    pub evaluation_batch_size: usize,
    /// The learning rate, which stays.
    pub learning_rate: f64,
    /// Largest global gradient norm.
    pub clip: Option<f64>,
    /// The update rule.
    pub optimizer: OptimizerRule,
    /// The model is that of the epoch with the lowest validation loss, and not the last one.
    pub best: bool,
    /// Whether each step is told to whoever watches.
    pub verbose: bool,
}

impl Default for EpochCourse {
    fn default() -> Self {
        let optimizer = OptimizerRule {
            kind: crate::course::OptimizerKind::Adam,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            weight_decay: 0.0,
            decay_vectors: true,
        };
        Self {
            seed: 0,
            epochs: 1,
            batch_size: 128,
            evaluation_batch_size: 65_536,
            learning_rate: 1e-3,
            clip: None,
            optimizer,
            best: false,
            verbose: true,
        }
    }
}

/// Some rows, whose columns go to a device when they are asked for.
#[derive(Debug)]
pub struct RowTensors<'a> {
    batch: &'a RowBatch,
    device: &'a Device,
}

impl<'a> RowTensors<'a> {
    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batch.rows
    }

    /// A column: `[rows, width]`, or `[rows]` for one of single values; `None` for one that is not there, and for another
    /// number of axes.
    #[must_use]
    pub fn column<const D: usize>(&self, name: &str) -> Option<Tensor<D>> {
        let column = self.batch.column(name)?;
        let shape = column.shape(self.batch.rows);
        (shape.len() == D)
            .then(|| Tensor::from_data(TensorData::new(column.values.clone(), shape), self.device))
    }

    /// The values of a column on the host.
    #[must_use]
    pub fn values(&self, name: &str) -> Option<&'a [f32]> {
        self.batch.column(name).map(|column| column.values.as_slice())
    }
}

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

    fn course(&self, settings: &Settings) -> Result<Course, SettingsError> {
        self.of_epochs(settings)
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
