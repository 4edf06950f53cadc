//! The loop: batch, update, metrics, validation, checkpoint, tick.

use std::sync::Arc;
use std::time::{Duration, Instant};

use waycairn_dag::Node;
use waycairn_durable::SharedLock;
use waycairn_store::{ObjectStore, RecordError, Scalar, StoreError};

use crate::checkpoint::{Contents, JobFile, LoaderState, ScheduleState, State};
use crate::course::Course;
use crate::data::{AnyBatch, Data, Loader};
use crate::error::{TrainError, chain};
use crate::history::VALIDATION;
use crate::identity::{BASE_FIELD, MODEL_FIELD, RunKey, SETTINGS_FIELD};
use crate::job::{Job, JobError};
use crate::launch::peak_bytes;
use crate::learner::{Draw, Learner};
use crate::progress::{Event, Progress};
use crate::saver::{SaveError, Saved, Saver};
use crate::schema::Key;
use crate::settings::Settings;
use crate::stop::Stop;

/// What a checkpoint restores, besides the data.
pub(crate) struct TrainState {
    pub(crate) learner: Box<dyn Learner>,
    /// Steps that are done.
    pub(crate) step: u64,
    /// Tokens that were trained on.
    pub(crate) tokens: u64,
    /// Steps that were skipped.
    pub(crate) skipped: u64,
    /// Position of the run's seq 0 in its data stream.
    pub(crate) offset: u64,
    /// Whether other data than the base's was allowed.
    pub(crate) changed_data: bool,
}

/// What the loop works with.
pub(crate) struct Tools<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) data: Arc<dyn Data>,
    pub(crate) course: Course,
    pub(crate) job_file: Arc<JobFile>,
    pub(crate) key: RunKey,
    /// Operations are done when they return.
    pub(crate) eager: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: &'a Stop,
    /// Keeps the base of a branch until the branch is recorded.
    pub(crate) hold: Option<SharedLock>,
    /// Opens the store anew when it failed; where it is there, the loop goes on without records.
    pub(crate) reopen: Option<&'a dyn Fn() -> Result<Arc<ObjectStore>, StoreError>>,
    pub(crate) progress: &'a mut dyn Progress,
}

/// How a loop ended, with everything durable.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The store that the loop ended with, which is to be closed.
    pub(crate) store: Arc<ObjectStore>,
    /// All steps are done; otherwise it was asked to stop.
    pub(crate) finished: bool,
    pub(crate) node: Node,
    /// Steps that are done, those of earlier launches included.
    pub(crate) step: u64,
    pub(crate) updates: u64,
    /// Steps that were left out, those of earlier launches included.
    pub(crate) skipped: u64,
    /// Records that were not kept.
    pub(crate) unrecorded: u64,
    pub(crate) ticks: u64,
    /// The newest checkpoint of this launch.
    pub(crate) checkpoint: Option<Node>,
}

/// One run of the loop.
pub(crate) struct Trainer<'a> {
    job: Job<TrainState>,
    tools: Tools<'a>,
    course: Course,
    loader: Loader,
    validation: Vec<AnyBatch>,
    /// What is counted of the data: tokens or rows.
    unit: &'static str,
    saver: Saver,
    meter: Meter,
    updates: u64,
    /// When the first of the updates began.
    began: Instant,
    /// Position of the newest checkpoint that was begun.
    begun: Option<u64>,
    /// The newest checkpoint that is complete.
    saved: Option<Node>,
    /// Whether it was said that the rules that keep checkpoints do not work as written.
    noticed: bool,
    /// Why a record was refused; the loop stops at the next tick.
    refused: Option<RecordError>,
    /// Records that were not kept, where the loop goes on without them.
    unrecorded: u64,
    /// The last node that a record of was refused.
    refused_at: Option<u64>,
    /// The node whose checkpoint was not announced, which is counted as a record.
    unsaved: Option<u64>,
    /// It was said that the loop goes on without records.
    degraded: bool,
}

/// Times and counts since the last report.
#[derive(Debug, Default)]
struct Meter {
    data: Duration,
    compute: Duration,
    update: Duration,
    record: Duration,
    tokens: u64,
    steps: u64,
}

/// How long it waits for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// The loop has steps to do: it looks once.
    None,
    /// What is done now is for the end.
    All,
}

/// What one step gave.
struct Step {
    number: u64,
    rate: f64,
    /// Loss and gradient norm, where they were read.
    seen: Option<(f64, f64)>,
}

impl<'a> Trainer<'a> {
    /// Makes a trainer for a job that is set up.
    pub(crate) fn new(job: Job<TrainState>, tools: Tools<'a>) -> Result<Self, TrainError> {
        let course = tools.course.clone();
        let loader = Loader::new(Arc::clone(&tools.data), job.state()?.offset, job.view()?);
        let validation = if course.eval_every.is_some() { tools.data.validation() } else { Vec::new() };
        Ok(Self {
            saver: Saver::new(Arc::clone(job.store()), course.retention.clone()),
            unit: if tools.data.vocabulary().is_some() { "tokens" } else { "rows" },
            meter: Meter::default(),
            updates: 0,
            began: Instant::now(),
            begun: None,
            saved: None,
            noticed: false,
            refused: None,
            unrecorded: 0,
            refused_at: None,
            unsaved: None,
            degraded: false,
            job,
            tools,
            course,
            loader,
            validation,
        })
    }

    /// Trains until all steps are done or somebody asks to stop; `first` says that the run's
    /// first node is still to be described.
    pub(crate) fn run(mut self, first: bool) -> Result<Ended, TrainError> {
        self.train(first).map_err(|error| self.counted(error))
    }

    /// Says of an error that ends a launch which went on without records how many there are.
    fn counted(&mut self, error: TrainError) -> TrainError {
        if !self.degraded && self.unrecorded == 0 {
            return error;
        }
        if let Err(error) = self.saver.wait() {
            self.count_unsaved(&error.into(), self.begun);
        }
        let store = self.job.store();
        // It waits for room once more.
        let lost = unjournaled(store.close_uncompacted().map(drop));
        match self.unrecorded + store.dropped() + lost {
            0 => error,
            unrecorded => TrainError::Degraded { unrecorded, source: Box::new(error) },
        }
    }

    fn train(&mut self, first: bool) -> Result<Ended, TrainError> {
        let steps = self.course.steps;
        self.tell_start()?;
        if first {
            self.tell_unvalidated()?;
            self.describe()?;
        }
        if !first && !self.catch_up()? {
            self.tell_no_step();
            return self.stopped();
        }
        if self.job.state()?.step >= steps {
            return self.finish();
        }
        self.job.begin()?;
        self.began = Instant::now();
        loop {
            let Some(step) = self.step()? else {
                return self.given_up();
            };
            let last = step.number >= steps;
            if last || step.number.is_multiple_of(self.course.report_every) {
                self.report(&step)?;
            }
            let validated = !due(step.number, self.course.eval_every)
                || self.validate(step.number, self.tools.deadline)?;
            let stopping = is_stopping(self.tools.stop, self.tools.deadline);
            if last || stopping || self.refused.is_some() || due(step.number, self.course.checkpoint_every) {
                self.save(self.job.node()?)?;
            }
            match self.saver.poll() {
                Ok(complete) => self.tell_saved(complete),
                Err(error) => self.go_on_unsaved(error.into(), self.begun)?,
            }
            if let Some(error) = self.refused.take() {
                // The checkpoint above is what can still be kept.
                let _ = self.saver.wait();
                return Err(error.into());
            }
            if last && validated {
                return self.finish();
            }
            if stopping {
                return self.stopped();
            }
            // Where something of the node was refused, that is counted, and the mere node is no record more.
            if self.refused_at == Some(self.job.node()?.seq()) {
                self.job.pass()?;
                continue;
            }
            match self.job.tick() {
                Err(JobError::Record(error)) if self.tools.reopen.is_some() => {
                    self.unrecorded += 1;
                    self.go_on_without(error)?;
                    self.job.pass()?
                }
                ticked => ticked?,
            };
        }
    }

    /// Goes on after an error of the store, where that is asked for.
    fn go_on_without(&mut self, error: impl Into<TrainError>) -> Result<(), TrainError> {
        let error = error.into();
        if self.tools.reopen.is_none() {
            return Err(error);
        }
        let why = chain(&error);
        if std::mem::replace(&mut self.degraded, true) {
            tracing::warn!(error = %why, "training goes on without it");
        } else {
            let notice = format!(
                "{why}; training goes on without it, and counts the records that are not kept; a store that failed is opened \
                 anew at the next checkpoint"
            );
            self.tools.progress.event(&Event::Notice(&notice));
        }
        Ok(())
    }

    /// Opens the store anew, where that is asked for and it does not accept records any more. What its journal holds is
    /// recovered by that. No save may be under way.
    fn mend(&mut self, patience: Patience) -> Result<(), TrainError> {
        let Some(reopen) = self.tools.reopen.filter(|_| !self.job.store().is_open()) else { return Ok(()) };
        if patience == Patience::None {
            ObjectStore::probe(self.job.store().root())?;
        }
        let (store, failed) = (reopen()?, Arc::clone(self.job.store()));
        self.unrecorded += unjournaled(failed.flush().map(drop)) + failed.dropped();
        self.tools.stop.guard(&store);
        self.saver.use_store(Arc::clone(&store));
        self.job.use_store(Arc::clone(&store));
        self.degraded = false;
        // The checkpoints that could not be announced.
        let node = self.job.node()?;
        store.remove_unmarked_checkpoints(node.name(), node.nonce())?;
        Ok(())
    }

    /// Says what run this is, durably, before its first step: the next launch finds it by this.
    fn describe(&mut self) -> Result<(), TrainError> {
        let node = self.job.node()?;
        let key = &self.tools.key;
        let mut fields = vec![
            (SETTINGS_FIELD, key.settings_sha256.to_string().into()),
            (BASE_FIELD, key.base.as_str().into()),
        ];
        fields.extend(key.model_key.as_deref().map(|model| (MODEL_FIELD, model.into())));
        self.job.store().value(&node, &fields)?;
        self.job.store().flush()?;
        // From here on the record keeps the base.
        self.tools.hold = None;
        Ok(())
    }

    /// Recorded at the first node of a launch, once its step is done.
    fn note_changed_data(&mut self) -> Result<(), TrainError> {
        if self.updates == 1 && self.job.state()?.changed_data {
            let node = self.job.node()?;
            self.record(&node, &[("job/changed_data", true.into())]);
        }
        Ok(())
    }

    /// Batch and update of the live node; `None` when somebody asked to stop before all its micro-batches were
    /// done, and then nothing of it is left: neither a record nor a gradient.
    fn step(&mut self) -> Result<Option<Step>, TrainError> {
        let begin = Instant::now();
        let batch = self.loader.batch();
        self.meter.data += begin.elapsed();

        let begin = Instant::now();
        let (stop, deadline) = (self.tools.stop, self.tools.deadline);
        let state = self.job.state_mut()?;
        let number = state.step + 1;
        let parts = self.course.accumulate;
        let counted = batch.counted();
        for micro in 0..parts {
            if micro > 0 && is_stopping(stop, deadline) {
                state.learner.skip();
                return Ok(None);
            }
            let whole = parts == 1;
            let slice = (!whole).then(|| batch.micro(micro as usize, parts as usize));
            let part = slice.as_ref().unwrap_or(&batch);
            let share = if whole { 1.0 } else { part.counted() as f64 / counted as f64 };
            if share > 0.0 {
                let draw = Draw { seed: self.course.seed, step: number, micro };
                state.learner.accumulate(part, share, draw);
            }
        }
        self.meter.compute += begin.elapsed();

        let begin = Instant::now();
        let (loss, norm) = state.learner.gradients();
        let last = number >= self.course.steps;
        // A checkpoint must not hold what is not finite, so it is looked at as well.
        let noted = last
            || number.is_multiple_of(self.course.report_every)
            || due(number, self.course.checkpoint_every);
        let look = noted || self.course.skip_nonfinite || self.tools.eager;
        let read =
            |pending: Option<crate::learner::Pending>| pending.map_or(f64::NAN, |number| number.read());
        let seen = look.then(|| (read(loss), read(norm)));
        let finite = seen.is_none_or(|(loss, norm)| loss.is_finite() && norm.is_finite());
        let rate = self.course.schedule.rate(number);
        if finite {
            state.learner.update(rate, self.course.clip);
        } else {
            state.learner.skip();
        }
        state.step = number;
        state.tokens += counted;
        self.updates += 1;
        self.meter.update += begin.elapsed();
        self.meter.tokens += counted;
        self.meter.steps += 1;
        self.note_changed_data()?;
        if !finite {
            let (loss, norm) = seen.unwrap_or((f64::NAN, f64::NAN));
            self.not_finite(number, loss, norm)?;
        }
        Ok(Some(Step { number, rate, seen }))
    }

    fn not_finite(&mut self, step: u64, loss: f64, norm: f64) -> Result<(), TrainError> {
        let node = self.job.node()?;
        if self.course.skip_nonfinite {
            let state = self.job.state_mut()?;
            state.skipped += 1;
            let skipped = scalar(state.skipped);
            self.record(&node, &[("train/skipped", skipped)]);
            return Ok(());
        }
        let fields =
            [("train/loss", loss.into()), ("train/grad_norm", norm.into()), ("train/step", scalar(step))];
        self.job.store().value(&node, &fields)?;
        self.saver.wait()?;
        self.job.store().flush()?;
        let schema = self.tools.settings.schema();
        let speed =
            |path: &&str| matches!(path.rsplit('.').next(), Some("learning_rate" | "clip" | "gradient_clip"));
        let lower = schema.keys().map(Key::path).filter(speed).collect();
        let skips = schema.has("on_nonfinite");
        Err(TrainError::NotFinite { node, step, loss, norm, lower, skips })
    }

    fn report(&mut self, step: &Step) -> Result<(), TrainError> {
        let begin = Instant::now();
        let node = self.job.node()?;
        let meter = std::mem::take(&mut self.meter);
        let busy = (meter.data + meter.compute + meter.update + meter.record).as_secs_f64();
        let rate = meter.tokens as f64 / busy.max(f64::MIN_POSITIVE);
        let mean = |time: Duration| -> Scalar { (time.as_secs_f64() / meter.steps.max(1) as f64).into() };
        let (loss, norm) = step.seen.unwrap_or((f64::NAN, f64::NAN));
        let counted = format!("train/{}", self.unit);
        let mut fields: Vec<(&str, Scalar)> = vec![
            ("train/loss", loss.into()),
            ("train/learning_rate", step.rate.into()),
            ("train/grad_norm", norm.into()),
            ("train/step", scalar(step.number)),
            (counted.as_str(), scalar(self.job.state()?.tokens)),
            ("train/rate", rate.into()),
            ("time/data", mean(meter.data)),
            ("time/compute", mean(meter.compute)),
            ("time/update", mean(meter.update)),
            ("time/record", mean(meter.record)),
        ];
        if let Some(peak) = peak_bytes() {
            fields.push(("memory/peak_bytes", peak.into()));
        }
        self.record(&node, &fields);
        let left = self.course.steps.saturating_sub(step.number) as f64;
        let left = left * self.began.elapsed().as_secs_f64() / self.updates.max(1) as f64;
        let skipped = self.job.state()?.skipped;
        if self.course.verbose {
            self.tools.progress.event(&Event::Step {
                node: &node,
                step: step.number,
                steps: self.course.steps,
                loss,
                rate,
                unit: self.unit,
                skipped,
                left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
            });
        }
        self.meter.record += begin.elapsed();
        Ok(())
    }

    /// Evaluates on the fixed validation batches; the training stream does not move.
    ///
    /// `false` when somebody asked to stop before the last of them, and then nothing of it is recorded: the launch
    /// that goes on from this step does it again, with equal bits.
    fn validate(&mut self, step: u64, deadline: Option<Instant>) -> Result<bool, TrainError> {
        let node = self.job.node()?;
        let stop = self.tools.stop;
        let mut given_up = false;
        let mut batches = self.validation.iter().take_while(|_| {
            given_up = is_stopping(stop, deadline);
            !given_up
        });
        let figures = self.job.state()?.learner.evaluate(&mut batches);
        if given_up {
            return Ok(false);
        }
        let fields: Vec<(String, Scalar)> =
            figures.iter().map(|(name, value)| (format!("val/{name}"), (*value).into())).collect();
        let fields: Vec<(&str, Scalar)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        self.record(&node, &fields);
        let loss = figures.first().map_or(f64::NAN, |(_, loss)| *loss);
        if self.course.verbose {
            self.tools.progress.event(&Event::Validation { node: &node, step, loss });
        }
        Ok(true)
    }

    /// Does the validation of the step that a launch goes on from, where it was given up. A limit on time does not end
    /// it: launches that are too short for it would all end here, and the run would never get on.
    fn catch_up(&mut self) -> Result<bool, TrainError> {
        let step = self.job.state()?.step;
        if step == 0 || !due(step, self.course.eval_every) {
            return Ok(true);
        }
        let node = self.job.node()?;
        let reader = self.job.store().live_reader();
        let done = reader.query().node(&node).has(VALIDATION).count()?.value > 0;
        Ok(done || self.validate(step, None)?)
    }

    /// Saves the state after the last step that is done, whose node this is.
    fn save(&mut self, node: Node) -> Result<(), TrainError> {
        self.settle()?;
        let seq = node.seq();
        match self.begin_save(node, Patience::None) {
            Ok(()) => Ok(()),
            Err(error) => self.go_on_unsaved(error, Some(seq)),
        }
    }

    /// Goes on without the checkpoint of a node, where that is asked for.
    fn go_on_unsaved(&mut self, error: TrainError, seq: Option<u64>) -> Result<(), TrainError> {
        self.count_unsaved(&error, seq);
        self.go_on_without(error)
    }

    /// Counts the record that would have announced a checkpoint, unless the store has it.
    fn count_unsaved(&mut self, error: &TrainError, seq: Option<u64>) {
        if self.tools.reopen.is_some() && !matches!(error, TrainError::Save(SaveError::Flush { .. })) {
            self.unrecorded += 1;
            self.unsaved = seq;
        }
    }

    /// Waits for the save that is under way.
    fn settle(&mut self) -> Result<(), TrainError> {
        match self.saver.wait() {
            Ok(saved) => {
                self.tell_saved(saved);
                Ok(())
            }
            Err(error) => self.go_on_unsaved(error.into(), self.begun),
        }
    }

    /// Waits for the last save; where the loop went on without it, it is done now.
    fn settle_last(&mut self, node: &Node) -> Result<(), TrainError> {
        self.settle()?;
        if self.tools.reopen.is_some() && self.updates > 0 && self.saved.as_ref() != Some(node) {
            if self.unsaved.take_if(|seq| *seq == node.seq()).is_some() {
                self.unrecorded -= 1;
            }
            let begun = self.begin_save(node.clone(), Patience::All);
            match begun.and_then(|()| Ok(self.saver.wait()?)) {
                Ok(saved) => self.tell_saved(saved),
                Err(error) => {
                    self.count_unsaved(&error, Some(node.seq()));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn begin_save(&mut self, node: Node, patience: Patience) -> Result<(), TrainError> {
        self.mend(patience)?;
        let seq = node.seq();
        let state = self.job.state()?;
        let contents = Contents {
            snapshot: state.learner.snapshot(),
            state: State {
                version: crate::checkpoint::STATE_VERSION,
                node: node.address().to_string(),
                step: state.step,
                tokens: state.tokens,
                skipped: state.skipped,
                schedule: ScheduleState { learning_rate: self.course.schedule.rate(state.step) },
                loader: LoaderState {
                    offset: state.offset,
                    position: state.offset + seq,
                    fingerprint: self.tools.data.fingerprint().clone(),
                    changed_data_allowed: state.changed_data,
                },
                scaler: None,
                optimizer: std::collections::BTreeMap::new(),
            },
            seed: self.course.seed,
            config: self.tools.settings.to_toml(),
            tokenizer: self.tools.data.vocabulary().cloned(),
            job: Arc::clone(&self.tools.job_file),
        };
        self.tools.progress.event(&Event::Saving { node: &node, step: state.step });
        let before = self.saver.save(node, self.loader.batch_at(seq), contents)?;
        self.begun = Some(seq);
        self.tell_saved(before);
        Ok(())
    }

    fn record(&mut self, node: &Node, fields: &[(&str, Scalar)]) {
        if let Err(error) = self.job.store().value(node, fields) {
            if self.tools.reopen.is_some() {
                self.unrecorded += 1;
                self.refused_at = Some(node.seq());
                // Without an error there, it goes on.
                let _ = self.go_on_without(error);
            } else {
                self.refused.get_or_insert(error);
            }
        }
    }

    fn tell_start(&mut self) -> Result<(), TrainError> {
        let node = self.job.node()?;
        let state = self.job.state()?;
        self.tools.progress.event(&Event::Started {
            node: &node,
            done: state.step,
            steps: self.course.steps,
            parameters: state.learner.size(),
            device: &self.tools.job_file.device,
        });
        Ok(())
    }

    /// Says that no step of the run is one that validates, where it was meant to.
    fn tell_unvalidated(&mut self) -> Result<(), TrainError> {
        let Some(every) = self.course.eval_every else { return Ok(()) };
        let (done, last) = (self.job.state()?.step, self.course.steps);
        if done < last && last / every == done / every {
            let notice = format!(
                "nothing will be validated: no step of this run is a multiple of `eval_every`, which is {every}, and \
                 step {last} is the last; a smaller `eval_every` validates, in a new run"
            );
            self.tools.progress.event(&Event::Notice(&notice));
        }
        Ok(())
    }

    fn tell_saved(&mut self, saved: Option<Saved>) {
        if let Some(Saved { node, written, notice }) = saved {
            self.tools.progress.event(&Event::Saved { node: &node, bytes: written.bytes });
            if let Some(notice) = notice.filter(|_| !std::mem::replace(&mut self.noticed, true)) {
                self.tools.progress.event(&Event::Notice(&notice));
            }
            self.saved = Some(node);
        }
    }

    /// The last node keeps the finish marker: there is no tick after the last step.
    fn finish(&mut self) -> Result<Ended, TrainError> {
        let node = self.job.node()?;
        self.settle_last(&node)?;
        self.ended(node, true)
    }

    fn stopped(&mut self) -> Result<Ended, TrainError> {
        let node = self.job.node()?;
        self.settle_last(&node)?;
        self.ended(node, false)
    }

    /// Ends at the last step that is done, the live node's not being it. The clock has left the node of that step,
    /// but its state is still here, so what a stop right after the step would have saved is saved now.
    fn given_up(&mut self) -> Result<Ended, TrainError> {
        let node = self.job.give_up()?;
        if self.updates == 0 {
            // The state is the one that the launch began with: a checkpoint holds it, or the seed gives it again.
            self.tell_no_step();
        } else if self.begun != Some(node.seq()) {
            self.save(node.clone())?;
        }
        self.settle_last(&node)?;
        self.ended(node, false)
    }

    /// Says that the same launch again would get no further.
    fn tell_no_step(&mut self) {
        let why = if self.tools.stop.is_requested() {
            "no step was done in this launch, and what is not finished at a stop is given up; stopped as soon again it \
             gets no further: let it run for longer than a step takes"
        } else {
            "the time was over before one step was done; with as little time again it gets no further: give \
             `--max-time` more than a step takes, or leave it out"
        };
        let shorter = "a smaller `batch_size` or `accumulate` makes steps shorter, in a new run";
        self.tools.progress.event(&Event::Notice(&format!("{why}; {shorter}")));
    }

    fn ended(&mut self, node: Node, finished: bool) -> Result<Ended, TrainError> {
        let end = |store: &ObjectStore| -> Result<(), TrainError> {
            if finished {
                store.finish(&node)?;
            }
            store.flush()?;
            Ok(())
        };
        match end(self.job.store()) {
            Err(error) if self.tools.reopen.is_some() => {
                self.go_on_without(error)?;
                self.mend(Patience::All)?;
                end(self.job.store())?;
            }
            ended => ended?,
        }
        tracing::debug!(node = %node, updates = self.updates, ticks = self.job.ticks(), "the loop ended");
        Ok(Ended {
            store: Arc::clone(self.job.store()),
            unrecorded: self.unrecorded + self.job.store().dropped(),
            finished,
            node,
            step: self.job.state()?.step,
            updates: self.updates,
            skipped: self.job.state()?.skipped,
            ticks: self.job.ticks(),
            checkpoint: self.saved.clone(),
        })
    }
}

/// How many records of a store that failed are not even in its journal.
fn unjournaled(ended: Result<(), StoreError>) -> u64 {
    match ended {
        Err(StoreError::Failed { unwritten, journaled, .. }) => unwritten.saturating_sub(journaled),
        _ => 0,
    }
}

/// Whether somebody asked to stop, or the time is over.
fn is_stopping(stop: &Stop, deadline: Option<Instant>) -> bool {
    stop.is_requested() || deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// "Every k" fires after step k.
fn due(step: u64, every: Option<u64>) -> bool {
    every.is_some_and(|every| step.is_multiple_of(every))
}

/// Counters stay far below the largest integer that a record holds.
fn scalar(count: u64) -> Scalar {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}
