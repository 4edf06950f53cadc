//! Whether settings fit into memory, asked before anything of their size is allocated: an allocation that fails
//! ends the process, with no word about the setting that is too large.

use crate::any_experiment::{AnyExperiment, Load};
use crate::error::TrainError;
use crate::settings::Settings;

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
    let load = experiment.load(settings, vocabulary)?;
    let needed = needed(&load, what);
    if needed <= available as f64 {
        return Ok(());
    }
    let paths = if what == Use::Training { &load.settings } else { &load.reading_settings };
    let shown = paths.iter().filter_map(|path| Some(format!("`{path}` = {}", settings.shown(path)?)));
    Err(TrainError::Memory { settings: shown.collect::<Vec<_>>().join(", "), needed, available })
}

/// What one row of a batch keeps of activations, in bytes.
pub(crate) fn row_bytes(load: &Load) -> f64 {
    VALUE * load.row
}

/// Refuses outputs of a call, so many 32-bit values, that do not fit into memory.
pub(crate) fn check_outputs(function: &str, values: f64) -> Result<(), TrainError> {
    let Some(available) = available() else { return Ok(()) };
    let needed = VALUE * values;
    if needed <= available as f64 {
        return Ok(());
    }
    let settings = format!("the outputs of `{function}` for so many rows");
    Err(TrainError::Memory { settings, needed, available })
}

/// The memory that a training holds at once, at least, in bytes.
pub(crate) fn training_bytes(load: &Load) -> f64 {
    needed(load, Use::Training)
}

fn needed(load: &Load, what: Use) -> f64 {
    match what {
        Use::Reading => VALUE * (load.parameters + load.row),
        Use::Training => VALUE * (4.0 * load.parameters + load.row * load.rows + load.data),
    }
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
    use crate::any_experiment::shared;
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

    #[cfg(target_os = "linux")]
    #[test]
    fn outputs_without_end_are_refused() {
        check_outputs("forward", 12.0 * 64.0 * 65.0).unwrap();
        let text = check_outputs("forward", 1e18).unwrap_err().to_string();
        assert!(text.starts_with("the outputs of `forward` for so many rows need about 4.0 EB"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_says_what_it_has() {
        assert!(available().unwrap() > 1 << 20);
        assert_eq!(size(8e9), "8.0 GB");
        assert_eq!(size(4.8e13), "48 TB");
    }
}
