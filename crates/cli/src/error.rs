//! What went wrong, as three lines for people or one object for programs, and the exit status that says so.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use waycairn_dag::Node;
use waycairn_durable::{is_dangling, is_irregular};
use waycairn_store::QueryError;
use waycairn_train::TrainError;

use crate::table::shortened;
use crate::terminal::Terminal;
use crate::value::Value;

/// How a command ends; the numbers are a promise to scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done = 0,
    /// It failed; the error says how.
    Failed = 1,
    /// The command line itself was wrong.
    Usage = 2,
    /// A verification found damage.
    Damaged = 3,
    /// Stopped in good order: the same command goes on.
    Stopped = 4,
    /// Ended at once by a second signal.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What standard output is called.
pub(crate) const STANDARD_OUTPUT: &str = "standard output";

/// An error as the user meets it.
#[derive(Debug)]
pub(crate) struct CliError {
    /// What a script matches on.
    pub(crate) code: &'static str,
    /// One line: what happened.
    pub(crate) what: String,
    /// One line: why.
    pub(crate) why: Option<Box<str>>,
    /// One line: what to do.
    pub(crate) next: Option<Box<str>>,
    /// Lines that show the place, such as an expression with a caret below it.
    pub(crate) picture: Vec<String>,
    /// The exit status that goes with it.
    pub(crate) exit: Exit,
    source: Option<Box<dyn Error + Send + Sync>>,
    quiet: bool,
}

impl CliError {
    /// An error of the code `code`, which says what happened.
    pub(crate) fn new(code: &'static str, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            why: None,
            next: None,
            picture: Vec::new(),
            exit: Exit::Failed,
            source: None,
            quiet: false,
        }
    }

    /// A command line that cannot be meant.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new("usage", what).exit(Exit::Usage)
    }

    /// An error of a crate below: what it says, with its causes as the reason.
    pub(crate) fn of(code: &'static str, error: impl Error + Send + Sync + 'static) -> Self {
        let mut of = Self::line(code, &error.to_string());
        of.why = reason(&error).map(Into::into);
        of.source = Some(Box::new(error));
        of
    }

    /// A refusal of the operating system that nothing here explains.
    pub(crate) fn system(error: io::Error) -> Self {
        Self::of("system", error)
    }

    /// What an error of a crate below says, with the next step split off.
    pub(crate) fn line(code: &'static str, text: &str) -> Self {
        let text = one_line(text);
        let (what, next) = split_next(&text);
        let mut line = Self::new(code, what);
        line.next = next.map(Into::into);
        line
    }

    /// An error of a crate below that says the next step by itself.
    pub(crate) fn told(
        code: &'static str,
        error: impl Error + Send + Sync + 'static,
        next: Option<String>,
    ) -> Self {
        let mut told = Self::of(code, error);
        if let Some(next) = next {
            let source = told.source.as_deref().map(ToString::to_string).unwrap_or_default();
            told.what = one_line(&source);
            told.next = Some(next.into());
        }
        told
    }

    /// A failure to write what was asked for. A reader that has seen enough, such as `head`, is no failure.
    pub(crate) fn writing(target: &str, error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let mut writing = Self::new("io", format!("cannot write to {target}")).why(io_text(&error));
        // The other places were named with `-o`.
        writing.next = Some(match target {
            STANDARD_OUTPUT => "make room there, or send the output elsewhere".into(),
            _ => "make room, or choose another place with `-o FILE`".into(),
        });
        writing.quiet = quiet;
        writing.source = Some(Box::new(error));
        writing
    }

    /// Sets the reason.
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into().into());
        self
    }

    /// Makes what stands behind the first colon the reason, where there is none yet. One in backticks is part of a name,
    /// and before that nothing is named.
    pub(crate) fn split_why(mut self) -> Self {
        let (mut quoted, mut named) = (false, false);
        let colon = self.what.char_indices().find(|(at, c)| {
            quoted ^= *c == '`';
            named |= quoted;
            *c == ':' && named && !quoted && self.what[*at..].starts_with(": ")
        });
        if let (Some((at, _)), None) = (colon, &self.why) {
            self.why = Some(self.what[at + 2..].into());
            self.what.truncate(at);
        }
        self
    }

    /// Sets what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into().into());
        self
    }

    /// Sets what to do next where the error itself does not say it.
    pub(crate) fn default_next(mut self, next: &str) -> Self {
        self.next.get_or_insert_with(|| next.into());
        self
    }

    /// Says what to do about an answer of the operating system, where nothing that knows more says it.
    pub(crate) fn or_system_next(mut self) -> Self {
        if self.next.is_none() {
            let source = self.source.as_deref().map(|source| source as &(dyn Error + 'static));
            let mut causes = std::iter::successors(source, |error| (*error).source());
            let answer = causes.find_map(|error| error.downcast_ref::<io::Error>());
            self.next = answer.and_then(system_next).map(Into::into);
        }
        self
    }

    /// Names the option that leaves a damaged part out, where that is what is wrong.
    pub(crate) fn offer_skipping(mut self) -> Self {
        let cause = self.source.as_deref().and_then(|source| source.downcast_ref::<QueryError>());
        if let Some(QueryError::Damaged { .. }) = cause {
            let next =
                "restore it from a copy of the root, or leave it out of the answer with `--skip-damaged`";
            self.next = Some(next.into());
        }
        self
    }

    /// The node without a checkpoint, where that is what is wrong.
    pub(crate) fn without_checkpoint(&self) -> Option<&Node> {
        let cause = self.source.as_deref().and_then(|source| source.downcast_ref::<TrainError>());
        match cause {
            Some(TrainError::NoCheckpoint { node, .. }) => Some(node),
            _ => None,
        }
    }

    /// Sets the exit status.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Sets the lines that show the place.
    pub(crate) fn picture(mut self, picture: Vec<String>) -> Self {
        self.picture = picture;
        self
    }

    /// Whether nothing is to be said, because nobody reads any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The three lines, with the picture between, and the chain of causes where `chain` asks for it.
    pub(crate) fn text(&self, terminal: &Terminal, chain: bool) -> String {
        let mut text = format!("{}: {}\n", terminal.alarm("error"), shortened(&self.what));
        if let Some(why) = &self.why {
            text.push_str(&format!("  why: {}\n", shortened(why)));
        }
        for line in &self.picture {
            text.push_str(&format!("       {line}\n"));
        }
        if let Some(next) = &self.next {
            text.push_str(&format!(" next: {next}\n"));
        }
        if chain {
            let mut cause = self.source.as_deref().and_then(Error::source);
            let mut depth = 0;
            while let Some(error) = cause {
                depth += 1;
                text.push_str(&format!("    {depth}: {error}\n"));
                cause = error.source();
            }
        }
        text
    }

    /// What happened, why and what to do in one line, for what is said in passing.
    pub(crate) fn in_one_line(&self) -> String {
        let parts = [Some(self.what.as_str()), self.why.as_deref(), self.next.as_deref()];
        parts.into_iter().flatten().map(shortened).collect::<Vec<_>>().join("; ")
    }

    /// The object that scripts read: `{"error": {code, what, why, next}}`.
    pub(crate) fn json(&self) -> Value {
        let error = vec![
            ("code".into(), Value::from(self.code)),
            ("what".into(), Value::from(shortened(&self.what).as_ref())),
            ("why".into(), Value::text(self.why.as_deref().map(shortened))),
            ("next".into(), Value::text(self.next.as_deref())),
        ];
        Value::Object(vec![("error".into(), Value::Object(error))])
    }
}

/// The causes of an error in one line, outermost first. A cause whose text its effect already holds adds nothing.
fn reason(error: &dyn Error) -> Option<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = match error.downcast_ref::<io::Error>() {
            Some(error) => io_text(error),
            None => one_line(&error.to_string()),
        };
        if !said.contains(&text) {
            causes.push(text.clone());
            said = text;
        }
        cause = error.source();
    }
    if causes.is_empty() { None } else { Some(causes.join(": ")) }
}

/// The next step after an answer of the operating system, where there is a plain one.
fn system_next(error: &io::Error) -> Option<&'static str> {
    /// Too many open files, of the process and of the system; the same on every Unix.
    const OPEN_FILES: [i32; 2] = [24, 23];
    /// Of the disk, or of the network below it.
    const INPUT_OUTPUT: i32 = 5;
    if is_dangling(error) {
        return Some("put back what the link leads to, or replace the link");
    }
    if is_irregular(error) {
        return Some("move it away, or restore what was there from a copy of the root");
    }
    let code = error.raw_os_error();
    if cfg!(unix) && code.is_some_and(|code| OPEN_FILES.contains(&code)) {
        return Some("allow more open files: `ulimit -n`");
    }
    if cfg!(unix) && code == Some(INPUT_OUTPUT) {
        return Some("look into the system's log: the disk, or the network that it is on, has failed");
    }
    match error.kind() {
        io::ErrorKind::StorageFull => Some("free some space on that disk, or choose another one"),
        io::ErrorKind::QuotaExceeded => Some("remove something, or ask for a larger quota"),
        io::ErrorKind::FileTooLarge => Some("allow larger files: `ulimit -f`"),
        io::ErrorKind::PermissionDenied => Some("allow it there, or choose another place"),
        io::ErrorKind::ReadOnlyFilesystem => Some("choose a place on a file system that is not read-only"),
        io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => {
            Some("wait for the process that uses it, or stop it")
        }
        io::ErrorKind::OutOfMemory => Some("free memory, or ask for less at once"),
        io::ErrorKind::NotFound => Some("check the path: it is gone, or was never there"),
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            Some("check the path, and what is there")
        }
        _ => None,
    }
}

/// An answer of the operating system in our style: `no such file or directory`.
fn io_text(error: &io::Error) -> String {
    let text = one_line(&error.to_string());
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if chars.clone().next().is_none_or(|second| !second.is_uppercase()) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// Errors of the crates below say what happened and, after the last semicolon, what to do; a semicolon in backticks
/// is part of a name.
fn split_next(text: &str) -> (&str, Option<&str>) {
    let mut quoted = false;
    let mut at = None;
    for (index, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            ';' if !quoted && text[index..].starts_with("; ") => at = Some(index),
            _ => {}
        }
    }
    match at {
        Some(at) => (&text[..at], Some(&text[at + 2..])),
        None => (text, None),
    }
}

/// Text on one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut joined = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !joined.is_empty() {
            joined.push_str(if joined.ends_with(':') { " " } else { "; " });
        }
        joined.push_str(line);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open `a`")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is gone")]
    struct Inner;

    #[test]
    fn three_lines_and_the_chain() {
        let error = CliError::of("io", Outer(Inner)).next("mount it");
        let plain = Terminal::plain();
        assert_eq!(
            error.text(&plain, false),
            "error: cannot open `a`\n  why: the disk is gone\n next: mount it\n"
        );
        assert!(error.text(&plain, true).ends_with("    1: the disk is gone\n"));
    }

    #[test]
    fn the_next_step_stands_after_the_last_semicolon() {
        assert_eq!(split_next("`a; b` is gone"), ("`a; b` is gone", None));
        assert_eq!(split_next("a; b; c"), ("a; b", Some("c")));
    }

    #[test]
    fn a_message_of_any_length_can_be_read() {
        let long = "x".repeat(10_000);
        let error = CliError::usage(format!("no node `{long}`")).why(format!("'{long}' is none"));
        assert!(error.text(&Terminal::plain(), false).len() < 300);
        assert!(serde_json::to_string(&error.json()).unwrap().len() < 400);
    }

    #[test]
    fn a_reason_in_the_same_line_stands_on_its_own() {
        let error = CliError::line("plugin", "`a: b` is damaged: it is cut; build it again").split_why();
        assert_eq!((error.what.as_str(), error.why.as_deref()), ("`a: b` is damaged", Some("it is cut")));
        assert_eq!(error.next.as_deref(), Some("build it again"));
        for plain in ["`a: b` is a folder", "no such file: `a`"] {
            let error = CliError::line("plugin", plain).split_why();
            assert_eq!((error.what.as_str(), error.why), (plain, None));
        }
    }

    #[test]
    fn the_operating_system_speaks_our_style() {
        let absent = io::Error::from_raw_os_error(2);
        assert_eq!(io_text(&absent), "no such file or directory");
        assert_eq!(io_text(&io::Error::other("NFS is gone")), "NFS is gone");
    }

    #[test]
    fn what_the_operating_system_refuses_has_a_next_step() {
        let next = |error: io::Error| {
            let error = QueryError::Io { operation: "read", path: "p".into(), source: error };
            CliError::of("io", error).or_system_next().next.map(String::from).unwrap_or_default()
        };
        for (code, says) in
            [(28, "free some space"), (13, "allow it"), (5, "log"), (24, "ulimit -n"), (2, "the path")]
        {
            assert!(next(io::Error::from_raw_os_error(code)).contains(says), "{code}");
        }
        for kind in
            [io::ErrorKind::QuotaExceeded, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::WouldBlock]
        {
            assert!(!next(kind.into()).is_empty(), "{kind}");
        }
        assert_eq!(next(io::Error::other("who knows")), "");
        let known = CliError::of("io", io::Error::from(io::ErrorKind::StorageFull)).next("wait");
        assert_eq!(known.or_system_next().next.as_deref(), Some("wait"), "what knows more stands");
    }

    #[test]
    fn another_place_is_advised_where_there_is_an_option_for_it() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        assert!(!CliError::writing(STANDARD_OUTPUT, full()).next.unwrap().contains("-o"));
        assert!(CliError::writing("`a.csv`", full()).next.unwrap().contains("-o FILE"));
    }

    #[test]
    fn cli_1_the_object_has_four_fields() {
        let json = serde_json::to_string(&CliError::usage("no").json()).unwrap();
        assert_eq!(json, r#"{"error":{"code":"usage","what":"no","why":null,"next":null}}"#);
    }

    #[test]
    fn cli_4_the_exit_status_is_a_promise() {
        let statuses =
            [Exit::Done, Exit::Failed, Exit::Usage, Exit::Damaged, Exit::Stopped, Exit::Interrupted];
        assert_eq!(statuses.map(|exit| exit as u8), [0, 1, 2, 3, 4, 130]);
        assert_eq!(CliError::usage("no").exit, Exit::Usage);
        assert_eq!(CliError::new("io", "no").exit, Exit::Failed);
    }

    #[test]
    fn a_damaged_part_can_be_left_out() {
        let damaged = QueryError::Damaged { path: "p".into(), what: "it is cut".into(), source: None };
        let error = crate::failure::query(damaged).offer_skipping();
        assert_eq!(error.what, "the part `p` is damaged: it is cut");
        assert!(error.next.unwrap().contains("`--skip-damaged`"));
        assert!(CliError::new("io", "no").offer_skipping().next.is_none());
    }

    #[test]
    fn a_closed_pipe_says_nothing() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(CliError::writing("standard output", broken).is_quiet());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!CliError::writing("standard output", full).is_quiet());
    }
}
