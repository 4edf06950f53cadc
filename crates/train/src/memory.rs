//! Whether settings fit into memory, asked before anything of their size is allocated: an allocation that fails
//! ends the process, with no word about the setting that is too large.

use crate::error::TrainError;
use crate::experiment::{AnyExperiment, Demand};
use crate::settings::{Settings, SettingsError};

/// Bytes of a 32-bit value.
const VALUE: f64 = 4.0;

/// What is to be done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Weights, gradients and two moments; a batch with its activations.
    Training,
    /// Weights alone, and one example.
    Reading,
}

/// Refuses settings that need more memory than there is.
///
/// The estimate counts only what is certain to be held at once, so what it refuses does not fit. Floats cannot
/// overflow here, whatever the settings.
pub(crate) fn check(
    experiment: &dyn AnyExperiment,
    settings: &Settings,
    vocabulary: usize,
    what: Use,
) -> Result<(), TrainError> {
    let Some(available) = available() else { return Ok(()) };
    check_against(experiment, settings, vocabulary, what, available)
}

fn check_against(
    experiment: &dyn AnyExperiment,
    settings: &Settings,
    vocabulary: usize,
    what: Use,
    available: u64,
) -> Result<(), TrainError> {
    let demand = experiment.demand(settings, vocabulary)?;
    let needed = needed(&demand, settings, what)?;
    if needed <= available as f64 {
        return Ok(());
    }
    let mut paths = vec!["data.context"];
    if what == Use::Training {
        paths.extend(["batch_size", "accumulate"]);
    }
    paths.extend(demand.settings);
    let shown = paths.iter().filter_map(|path| Some(format!("`{path}` = {}", settings.get(path)?)));
    Err(TrainError::Memory { settings: shown.collect::<Vec<_>>().join(", "), needed, available })
}

/// Rows that a model is given at once when it is only read: those of a batch in training, or as many as memory has
/// room for beside the weights, and one at least.
pub(crate) fn rows(
    experiment: &dyn AnyExperiment,
    settings: &Settings,
    vocabulary: usize,
) -> Result<usize, SettingsError> {
    let batch = settings.size("batch_size")?;
    let demand = experiment.demand(settings, vocabulary)?;
    let row = VALUE * demand.activations_per_token * settings.integer("data.context")? as f64;
    // The weights are in memory by now, so they are no part of what is available.
    Ok(available().map_or(batch, |available| rows_within(row, batch, available)))
}

fn rows_within(row: f64, batch: usize, available: u64) -> usize {
    // A conversion from a float stops at the ends of the range; no demand is a quotient that is infinite.
    let room = (available as f64 / row) as usize;
    batch.min(room).max(1)
}

/// Refuses logits that do not fit into memory.
pub(crate) fn check_logits(rows: usize, context: usize, vocabulary: usize) -> Result<(), TrainError> {
    let Some(available) = available() else { return Ok(()) };
    let needed = VALUE * rows as f64 * context as f64 * vocabulary as f64;
    if needed <= available as f64 {
        return Ok(());
    }
    let settings = format!("logits of {rows} rows of {context} tokens");
    Err(TrainError::Memory { settings, needed, available })
}

/// The memory that a training holds at once, at least, in bytes.
pub(crate) fn training_bytes(
    experiment: &dyn AnyExperiment,
    settings: &Settings,
    vocabulary: usize,
) -> Result<f64, SettingsError> {
    needed(&experiment.demand(settings, vocabulary)?, settings, Use::Training)
}

fn needed(demand: &Demand, settings: &Settings, what: Use) -> Result<f64, SettingsError> {
    let context = settings.integer("data.context")? as f64;
    if what == Use::Reading {
        return Ok(VALUE * (demand.parameters + demand.activations_per_token * context));
    }
    let rows = settings.integer("batch_size")? as f64;
    let micro = rows * context;
    // Inputs and targets of the whole step.
    let batch = 2.0 * micro * settings.integer("accumulate")? as f64;
    Ok(VALUE * (4.0 * demand.parameters + demand.activations_per_token * micro + batch))
}

/// Memory that can still be had, in bytes, where the system tells.
fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let info = read("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let machine = kilobytes.checked_mul(1024)?;
    // A container's own limit; page cache counts as used there, so what is in use is not taken off.
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.iter().filter_map(|path| read(path)?.trim().parse::<u64>().ok()).min();
    Some(limit.map_or(machine, |limit| machine.min(limit)))
}

/// A size in decimal units, with two digits or more.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut scaled, mut unit) = (bytes / 1000.0, UNITS[0]);
    for next in &UNITS[1..] {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    match scaled {
        small if small < 10.0 => format!("{small:.1} {unit}"),
        fair if fair < 1e6 => format!("{fair:.0} {unit}"),
        _ => format!("{scaled:.1e} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Gpt;
    use crate::experiment::shared;
    use crate::settings::Schema;

    fn settings(sets: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::defaults(Schema::new(crate::Experiment::keys(&Gpt)));
        for (path, value) in sets {
            settings.set(path, value).unwrap();
        }
        settings
    }

    #[test]
    fn the_default_fits_and_enormous_sizes_are_named_with_both_figures() {
        let gpt = shared(Gpt);
        let gigabytes = 8_000_000_000;
        for what in [Use::Training, Use::Reading] {
            check_against(&gpt, &settings(&[]), 65, what, gigabytes).unwrap();
        }
        let largest = "9007199254740991";
        for (path, value) in [
            ("model.width", "1000000"),
            ("model.layers", "1000000"),
            ("batch_size", largest),
            ("accumulate", largest),
            ("data.context", largest),
        ] {
            let settings = settings(&[(path, value)]);
            let error = check_against(&gpt, &settings, 65, Use::Training, gigabytes).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("`{path}` = {value}")) && text.contains("8.0 GB"), "{text}");
        }
        let all = settings(&[
            ("model.width", largest),
            ("model.layers", largest),
            ("batch_size", largest),
            ("accumulate", largest),
            ("data.context", largest),
        ]);
        assert!(check_against(&gpt, &all, usize::MAX, Use::Training, u64::MAX).is_err());
        let wide = settings(&[("model.width", "1000000")]);
        assert!(check_against(&gpt, &wide, 65, Use::Reading, gigabytes).is_err());
    }

    #[test]
    fn as_many_rows_are_read_at_once_as_training_had_or_memory_has() {
        assert_eq!(rows_within(1e6, 12, 8_000_000_000), 12);
        assert_eq!(rows_within(1e9, 12, 8_000_000_000), 8);
        assert_eq!(rows_within(1e12, 12, 8_000_000_000), 1);
        assert_eq!(rows_within(0.0, 12, 8_000_000_000), 12);
        assert_eq!(rows_within(f64::INFINITY, 12, 8_000_000_000), 1);
        assert!(rows(&shared(Gpt), &settings(&[("batch_size", "5")]), 65).unwrap() <= 5);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn logits_without_end_are_refused() {
        check_logits(12, 64, 65).unwrap();
        let text = check_logits(usize::MAX, 64, 65).unwrap_err().to_string();
        assert!(text.starts_with("logits of 18446744073709551615 rows of 64 tokens need about"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_says_what_it_has() {
        assert!(available().unwrap() > 1 << 20);
        assert_eq!(size(8e9), "8.0 GB");
        assert_eq!(size(4.8e13), "48 TB");
    }
}
