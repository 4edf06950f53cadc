//! What the other end of the output can show: a terminal has a width and may have colour, anything else has neither.

use std::io::IsTerminal;

/// What standard output and standard error are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Columns of the terminal that standard output is; `None` where it is none.
    pub(crate) width: Option<usize>,
    /// Whether standard error is a terminal, so that a progress line may move on it.
    pub(crate) live: bool,
    colour_out: bool,
    colour_err: bool,
}

impl Terminal {
    /// Looks at the two streams. `colour` is false where the user's environment forbids it (`NO_COLOR`).
    pub(crate) fn look(colour: bool) -> Self {
        let out = std::io::stdout().is_terminal();
        let err = std::io::stderr().is_terminal();
        let width = comfy_table::Table::new().width().map(usize::from).filter(|width| *width > 0);
        Self {
            width: if out { width.or(Some(80)) } else { None },
            live: err,
            colour_out: out && colour,
            colour_err: err && colour,
        }
    }

    /// No terminal at all: what a pipe and a test get.
    pub(crate) fn plain() -> Self {
        Self { width: None, live: false, colour_out: false, colour_err: false }
    }

    /// The same with a width.
    #[cfg(test)]
    pub(crate) fn of_width(self, width: usize) -> Self {
        Self { width: Some(width), ..self }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Whether a progress line may have colour.
    pub(crate) fn colourful(&self) -> bool {
        self.colour_err
    }

    /// Whether a table may be styled.
    pub(crate) fn styled(&self) -> bool {
        self.colour_out
    }

    /// Text of standard output that stands out.
    pub(crate) fn strong(&self, text: &str) -> String {
        if self.colour_out { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Text of standard output that stands back.
    pub(crate) fn faint(&self, text: &str) -> String {
        if self.colour_out { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Text of standard error that announces a failure.
    pub(crate) fn alarm(&self, text: &str) -> String {
        if self.colour_err { format!("\u{1b}[1;31m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
