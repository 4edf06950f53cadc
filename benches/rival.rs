//! Runs the programs that time what users would pick instead, beside ours and in the same run.
//!
//! The rivals are Python packages: `pip install -r benches/rivals/requirements.txt` into an environment of
//! your own, then name its interpreter in `WAYCAIRN_BENCH_PYTHON` (default `python3`). A rival that is not
//! installed is reported as such, loudly, and the rest goes on.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

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
    let mut command = command(script, arguments);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("RIVALS SKIPPED: {:?} does not start: {error}", command.get_program());
            return Vec::new();
        }
    };
    let mut figures = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match figure(line) {
            Some(figure) => figures.push(figure),
            None => println!("  {line}"),
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

/// A rival that stays up, so that it can be asked in turn with ours: what disturbs the machine then disturbs both.
#[derive(Debug)]
pub struct Rival {
    child: Child,
    /// None once it was told to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts `benches/rivals/<script>`; `None`, said loudly, where that cannot be done.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = S>) -> Option<Self> {
        let mut command = command(script, arguments);
        match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(mut child) => match (child.stdin.take(), child.stdout.take()) {
                (input, Some(output)) => Some(Self { child, input, output: BufReader::new(output) }),
                _ => None,
            },
            Err(error) => {
                println!("RIVALS SKIPPED: {:?} does not start: {error}", command.get_program());
                None
            }
        }
    }

    /// Asks for one round: its lines `figure <rival> <case> <value>` up to `done`. Every other line is passed on.
    ///
    /// An empty list means that it has ended, which is said loudly.
    pub fn ask(&mut self) -> Vec<Figure> {
        let asked =
            self.input.as_mut().is_some_and(|input| writeln!(input).and_then(|()| input.flush()).is_ok());
        let (mut figures, mut line) = (Vec::new(), String::new());
        while asked && self.output.read_line(&mut line).is_ok_and(|read| read > 0) {
            match line.trim_end() {
                "done" => return figures,
                text => match figure(text) {
                    Some(figure) => figures.push(figure),
                    None => println!("  {text}"),
                },
            }
            line.clear();
        }
        println!(
            "RIVALS INCOMPLETE: a rival ended before it was done; install benches/rivals/requirements.txt and set \
             WAYCAIRN_BENCH_PYTHON"
        );
        Vec::new()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.input.take());
        drop(self.child.wait());
    }
}

fn command<S: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    let python = std::env::var("WAYCAIRN_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals").join(script);
    let mut command = Command::new(python);
    command.arg(path).args(arguments);
    command
}

/// Reads a line `figure <rival> <case> <value>`, its words between tabs.
fn figure(line: &str) -> Option<Figure> {
    let words: Vec<&str> = line.split('\t').collect();
    let ["figure", rival, case, value] = words.as_slice() else { return None };
    let value = value.parse().unwrap_or(f64::NAN);
    Some(Figure { rival: (*rival).to_owned(), case: (*case).to_owned(), value })
}

/// The median of each figure over some rounds.
#[must_use]
pub fn medians(rounds: &[Vec<Figure>]) -> Vec<Figure> {
    let first = rounds.first().map_or(&[][..], Vec::as_slice);
    let same = |one: &Figure, other: &Figure| (&one.rival, &one.case) == (&other.rival, &other.case);
    let all = |wanted: &Figure| -> Vec<f64> {
        rounds.iter().flatten().filter(|figure| same(figure, wanted)).map(|figure| figure.value).collect()
    };
    first.iter().map(|figure| Figure { value: quantile(&all(figure), 0.5), ..figure.clone() }).collect()
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

/// The most memory that this process has held, in MiB.
#[must_use]
pub fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kilobytes| kilobytes / 1024.0)
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
    fn a_line_is_a_figure_or_passed_on_and_figures_have_medians_by_rival_and_case() {
        assert!(figure("figure a b").is_none() && figure("PyTorch 2").is_none());
        let round = |value: f64| {
            vec![
                figure(&format!("figure\tone\tscores\t{value}")).unwrap(),
                figure("figure\tother\tscores\t7").unwrap(),
            ]
        };
        let medians = medians(&[round(3.0), round(1.0), round(2.0)]);
        assert_eq!(medians.iter().map(|figure| figure.value).collect::<Vec<_>>(), [2.0, 7.0]);
        assert_eq!((medians[0].rival.as_str(), medians[1].case.as_str()), ("one", "scores"));
    }

    #[test]
    fn quantiles_stand_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.5, 0.75, 1.0].map(|share| quantile(&values, share)), [1.0, 2.5, 3.25, 4.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
