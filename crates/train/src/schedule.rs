//! The learning rate of a step.

use crate::settings::{Settings, SettingsError};

/// Linear warm-up, then constant or a cosine down to the minimum.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    peak: f64,
    least: f64,
    warmup: u64,
    decay: Option<u64>,
}

impl Schedule {
    /// Reads `learning_rate`, `min_learning_rate`, `warmup`, `schedule`, `decay_steps`.
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let steps = settings.integer("steps")?;
        let warmup = settings.integer("warmup")?;
        let peak = settings.number("learning_rate")?;
        let cosine = settings.text("schedule")? == "cosine";
        let least = settings.number("min_learning_rate")?;
        if cosine && least > peak {
            return Err(SettingsError::Conflict {
                what: format!("`min_learning_rate` is {least}, above `learning_rate`, which is {peak}"),
                next: "lower `min_learning_rate`, or set `schedule=constant`".to_owned(),
            });
        }
        let decay = settings.optional_integer("decay_steps")?.unwrap_or(steps);
        Ok(Self { peak, least, warmup, decay: cosine.then_some(decay) })
    }

    /// The same rate at every step.
    pub(crate) fn constant(rate: f64) -> Self {
        Self { peak: rate, least: rate, warmup: 0, decay: None }
    }

    /// Returns the rate of step `step`, which counts from 1.
    pub(crate) fn rate(&self, step: u64) -> f64 {
        // The published schedules count from 0.
        let index = step.saturating_sub(1);
        if index < self.warmup {
            return self.peak * (index + 1) as f64 / (self.warmup + 1) as f64;
        }
        let Some(decay) = self.decay else {
            return self.peak;
        };
        if index >= decay {
            return self.least;
        }
        let share = (index - self.warmup) as f64 / (decay - self.warmup).max(1) as f64;
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * share).cos());
        self.least + cosine * (self.peak - self.least)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::settings::Schema;

    fn schedule(sets: &[(&str, &str)]) -> Result<Schedule, SettingsError> {
        let mut settings = Settings::defaults(Schema::new(Vec::new()));
        for (path, value) in sets {
            settings.set(path, value).unwrap();
        }
        Schedule::new(&settings)
    }

    #[test]
    fn the_rate_rises_falls_and_stays() {
        let schedule = schedule(&[
            ("learning_rate", "1e-3"),
            ("min_learning_rate", "1e-4"),
            ("warmup", "100"),
            ("steps", "3000"),
            ("decay_steps", "2000"),
        ])
        .unwrap();
        assert_eq!(schedule.rate(1), 1e-3 / 101.0);
        assert_eq!(schedule.rate(101), 1e-3);
        assert!((schedule.rate(1051) - 5.5e-4).abs() < 1e-9);
        assert_eq!(schedule.rate(2001), 1e-4);
        assert_eq!(schedule.rate(3000), 1e-4);
        assert!((2..2001).all(|step| step <= 101 || schedule.rate(step) < schedule.rate(step - 1)));
    }

    #[test]
    fn a_constant_schedule_keeps_its_warm_up() {
        let schedule =
            schedule(&[("schedule", "constant"), ("warmup", "1"), ("learning_rate", "0.5")]).unwrap();
        assert_eq!((schedule.rate(1), schedule.rate(2), schedule.rate(9999)), (0.25, 0.5, 0.5));
    }

    #[test]
    fn a_minimum_above_the_peak_is_refused() {
        let error = schedule(&[("learning_rate", "1e-5")]).unwrap_err();
        assert!(error.to_string().contains("above `learning_rate`"), "{error}");
    }
}
