//! Runs the programs that time what users would pick instead, beside ours and in the same run.
//!
//! The rivals are Python packages: `pip install -r benches/rivals/requirements.txt` into an environment of
//! your own, then name its interpreter in `WAYCAIRN_BENCH_PYTHON` (default `python3`). A rival that is not
//! installed is reported as such, loudly, and the rest goes on.

use std::{ffi::OsStr, path::Path, process::Command};

/// One figure of a rival: its name, the case, and the value in the unit that the script states.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name of the rival.
    pub rival: String,
    /// What was measured.
    pub case: String,
    /// The value, in the unit that the script's own doc states.
    pub value: f64,
}

/// Runs `benches/rivals/<script>` and collects its lines `figure <rival> <case> <value>`.
///
/// Every other line that the script prints is passed on. An empty list means that no rival could be run.
#[must_use]
pub fn run<S: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = S>) -> Vec<Figure> {
    let python = std::env::var("WAYCAIRN_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals").join(script);
    let output = match Command::new(&python).arg(path).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            println!("RIVALS SKIPPED: `{python}` does not start: {error}");
            return Vec::new();
        }
    };
    let mut figures = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["figure", rival, case, value] => figures.push(Figure {
                rival: (*rival).to_owned(),
                case: (*case).to_owned(),
                value: value.parse().unwrap_or(f64::NAN),
            }),
            _ => println!("  {line}"),
        }
    }
    if !output.status.success() || figures.is_empty() {
        println!(
            "RIVALS INCOMPLETE: `{script}` ended with {}; install benches/rivals/requirements.txt and set \
             WAYCAIRN_BENCH_PYTHON",
            output.status
        );
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        for line in errors.lines().rev().take(3) {
            println!("  {line}");
        }
    }
    figures
}

/// Prints ours and every rival's figure of one case, with the ratio to the best of them (smaller is better), in words
/// that say which of the two is ahead.
pub fn compare(case: &str, unit: &str, ours: f64, figures: &[Figure]) {
    println!("{case:<28} {:<14} {ours:>12.3} {unit}", "waycairn");
    let mut best = f64::INFINITY;
    for figure in figures.iter().filter(|figure| figure.case == case) {
        println!("{case:<28} {:<14} {:>12.3} {unit}", figure.rival, figure.value);
        best = best.min(figure.value);
    }
    if best.is_finite() {
        println!("{case:<28} ratio          {}", ratio(ours, best));
    }
}

/// How ours stands to the best rival's figure, never as a fraction of one.
#[must_use]
pub fn ratio(ours: f64, best: f64) -> String {
    if ours <= best {
        format!("{:>12.1} times cheaper than the cheapest rival", best / ours)
    } else {
        format!("{:>12.1} times slower than the fastest rival", ours / best)
    }
}

/// The median of `rounds` calls of `measure`.
pub fn median(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..rounds).map(|_| measure()).collect();
    values.sort_by(f64::total_cmp);
    values.get(rounds / 2).copied().unwrap_or(f64::NAN)
}

/// A quantile of values in any order, between the two that are nearest to it; NaN without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let at = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(place.floor()), at(place.ceil()));
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_says_who_is_ahead() {
        assert_eq!(ratio(2.0, 6.0).trim(), "3.0 times cheaper than the cheapest rival");
        assert_eq!(ratio(180.0, 36.0).trim(), "5.0 times slower than the fastest rival");
    }

    #[test]
    fn quantiles_stand_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.5, 0.75, 1.0].map(|share| quantile(&values, share)), [1.0, 2.5, 3.25, 4.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
