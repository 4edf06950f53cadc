//! Experiments over rows of numbers that they draw themselves, trained in epochs.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::{Value, json};
use waycairn_cache::Sources;

use crate::data::{DataError, RowBatch, Rows};
use crate::experiment::{Cohort, Demand, Initial};
use crate::function::Function;
use crate::optimizer::{OptimizerKind, OptimizerRule};
use crate::schema::Key;
use crate::settings::{Preset, Settings, SettingsError};

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
///     Column, DataError, Demand, EpochCourse, Function, Initial, Key, OptimizerKind, OptimizerRule, RowExperiment, RowTensors, Rows,
///     Settings, SettingsError, serde_json::{Value, json},
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
///     fn draw(&self, settings: &Settings) -> Result<Rows, DataError> {
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
    /// [`DataError`] for settings that no rows can be drawn with.
    fn draw(&self, settings: &Settings) -> Result<Rows, DataError>;

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
            kind: OptimizerKind::Adam,
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
    pub(crate) batch: &'a RowBatch,
    pub(crate) device: &'a Device,
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
