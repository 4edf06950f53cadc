//! Where an answer goes and in which format.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use waycairn_durable::{Durability, StagedFile};

use crate::error::{CliError, STANDARD_OUTPUT};
use crate::root;
use crate::terminal::Terminal;
use crate::value::Value;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 16;

/// How rows are written. The values carry no documentation: it would spread the help over three screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Aligned columns for people.
    Table,
    // RFC 4180.
    Csv,
    // One array.
    Json,
    // One object a line.
    Jsonl,
    // Apache Parquet.
    Parquet,
    // An Apache Arrow IPC file.
    Arrow,
}

/// How an answer that is not rows is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    // Text for people.
    #[value(alias = "text")]
    Table,
    // One value.
    #[value(alias = "jsonl")]
    Json,
}

/// The formats of an answer that is not rows, as the command line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShapeFormat {
    // Text for people.
    #[value(alias = "text")]
    Table,
    // One value over several lines.
    Json,
    // One value on one line.
    Jsonl,
}

impl ShapeFormat {
    /// What is written.
    pub(crate) fn shape(self) -> Shape {
        if self == Self::Table { Shape::Table } else { Shape::Json }
    }
}

/// The format and the place of an answer made of rows.
#[derive(Debug, Clone, Args)]
pub(crate) struct RowOutput {
    /// table, csv, json, jsonl, parquet or arrow [default: by FILE's ending, else table]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Output")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// The format and the place of any other answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShapeOutput {
    #[command(flatten)]
    pub(crate) place: ShapePlace,
}

/// Where an answer that is not rows goes, and on how many lines.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShapePlace {
    /// table (text for people), json, or jsonl for one line [default: by FILE's ending, else table]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Output")]
    format: Option<ShapeFormat>,
    #[command(flatten)]
    place: Place,
}

/// Where an answer goes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Write to FILE, which appears whole or not at all; one that exists is replaced
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
}

impl RowOutput {
    /// The format that was asked for, or that the file's name says.
    pub(crate) fn format(&self) -> Format {
        self.format.unwrap_or_else(|| match self.place.ending().as_deref() {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            Some("jsonl" | "ndjson") => Format::Jsonl,
            Some("parquet") => Format::Parquet,
            Some("arrow" | "arrows" | "ipc") => Format::Arrow,
            _ => Format::Table,
        })
    }

    /// Opens the place for rows in their format.
    pub(crate) fn open(&self, terminal: &Terminal) -> Result<Destination, CliError> {
        if self.format.is_none() {
            self.place
                .known_ending(&["csv", "json", "jsonl", "ndjson", "parquet", "arrow", "arrows", "ipc"])?;
        }
        if let Format::Parquet | Format::Arrow = self.format() {
            self.place.refuse_terminal(terminal)?;
        }
        self.place.open()
    }
}

impl ShapeOutput {
    /// The shape that was asked for, or that the file's name says.
    pub(crate) fn format(&self) -> Shape {
        self.place.format().shape()
    }
}

impl ShapePlace {
    fn format(&self) -> ShapeFormat {
        self.format.unwrap_or_else(|| match self.place.ending().as_deref() {
            Some("json") => ShapeFormat::Json,
            Some("jsonl" | "ndjson") => ShapeFormat::Jsonl,
            _ => ShapeFormat::Table,
        })
    }

    /// Opens the place; see [`Place::open`].
    pub(crate) fn open(&self) -> Result<Destination, CliError> {
        if self.format.is_none() {
            self.place.known_ending(&["json", "jsonl", "ndjson"])?;
        }
        let mut out = self.place.open()?;
        out.one_line = self.format() == ShapeFormat::Jsonl;
        Ok(out)
    }
}

impl Place {
    /// Opens the place. Nothing appears at a regular file before [`Destination::finish`].
    pub(crate) fn open(&self) -> Result<Destination, CliError> {
        let Some(path) = &self.output else { return Ok(Destination::standard_output()) };
        let opened = match kind(path) {
            Kind::StandardOutput => return Ok(Destination::standard_output()),
            Kind::Folder => {
                return Err(CliError::usage(format!("cannot write to `{}`", path.display()))
                    .why("it is a folder")
                    .next("name a file in it"));
            }
            Kind::Stream if is_socket(path) => {
                return Err(CliError::new("io", format!("cannot write to `{}`", path.display()))
                    .why("it is a socket, which is not opened by its name")
                    .next("choose another place with `-o FILE`"));
            }
            Kind::Stream => {
                stream(path).map(Box::new).map(|file| Inner::Stream(BufWriter::with_capacity(BUFFER, file)))
            }
            Kind::Regular(target) => {
                if let Some(root) = root::owner(&target) {
                    return Err(CliError::new("io", format!("cannot write to `{}`", path.display()))
                        .why(format!(
                            "it is among the files that the root `{}` keeps for itself",
                            root.display()
                        ))
                        .next("choose a place outside of the root"));
                }
                let staged = StagedFile::create(&target, Durability::State).map_err(|error| {
                    // The error names the temporary file beside the target, which means nothing to the user.
                    let cause = CliError::of("io", error);
                    CliError::new("io", format!("cannot write to `{}`", path.display()))
                        .why(cause.why.as_deref().unwrap_or(&cause.what))
                        .next("choose a place that exists and that you may write to")
                })?;
                keep_mode(&target, &staged);
                Ok(Inner::Staged(BufWriter::with_capacity(BUFFER, staged)))
            }
        };
        let name = format!("`{}`", path.display());
        match opened {
            Ok(inner) => Ok(Destination { inner, name, failure: None, one_line: false }),
            Err(error) => Err(CliError::writing(&name, error)),
        }
    }

    /// Refuses to pour binary data over a terminal.
    pub(crate) fn refuse_terminal(&self, terminal: &Terminal) -> Result<(), CliError> {
        if self.output.is_none() && terminal.is_terminal() {
            return Err(CliError::usage("this format is binary and standard output is a terminal")
                .why("it would only garble the screen")
                .next("add `-o FILE`, or send the output into a pipe or a file"));
        }
        Ok(())
    }

    /// Refuses a file whose ending says a format other than those that this answer can have. No ending, and that of
    /// a text, leave the format as it is.
    pub(crate) fn known_ending(&self, known: &[&str]) -> Result<(), CliError> {
        let (Some(path), Some(ending)) = (&self.output, self.ending()) else { return Ok(()) };
        let fits = ending == "txt" || known.contains(&ending.as_str());
        if fits || !matches!(kind(path), Kind::Regular(_)) {
            return Ok(());
        }
        let known: Vec<String> = known.iter().chain(&["txt"]).map(|ending| format!("`.{ending}`")).collect();
        Err(CliError::usage(format!("the ending of `{}` says no format of this answer", path.display()))
            .why(format!("what is known is {}, or no ending for a text", known.join(", ")))
            .next("choose one of these, or say the format with `--format`"))
    }

    /// Refuses a file whose ending says another format than the only one that this answer has. No ending says nothing.
    pub(crate) fn ending_of_one(&self, known: &str) -> Result<(), CliError> {
        let (Some(path), Some(ending)) = (&self.output, self.ending()) else { return Ok(()) };
        if ending == known || !matches!(kind(path), Kind::Regular(_)) {
            return Ok(());
        }
        Err(CliError::usage(format!("the ending of `{}` says another format", path.display()))
            .why(format!("what is written is `.{known}`, whatever the file is called"))
            .next(format!("call it `.{known}`, or say the format with `--format`")))
    }

    /// The ending of the file's name, in small letters.
    pub(crate) fn ending(&self) -> Option<String> {
        let ending = self.output.as_deref()?.extension()?;
        Some(ending.to_string_lossy().to_lowercase())
    }
}

/// An open place for bytes.
pub(crate) struct Destination {
    inner: Inner,
    name: String,
    /// What the place answered when it last refused bytes.
    failure: Option<io::Error>,
    /// Whether a JSON value stands on one line.
    pub(crate) one_line: bool,
}

enum Inner {
    Standard(BufWriter<io::Stdout>),
    Stream(BufWriter<Box<std::fs::File>>),
    Staged(BufWriter<StagedFile>),
}

impl Destination {
    /// Standard output.
    pub(crate) fn standard_output() -> Self {
        let inner = Inner::Standard(BufWriter::with_capacity(BUFFER, io::stdout()));
        Self { inner, name: STANDARD_OUTPUT.to_owned(), failure: None, one_line: false }
    }

    /// Writes what is still held and makes a regular file appear.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        let Self { inner, name, .. } = self;
        let failed = |error| CliError::writing(&name, error);
        match inner {
            Inner::Standard(mut out) => out.flush().map_err(failed),
            Inner::Stream(mut out) => out.flush().map_err(failed),
            Inner::Staged(out) => {
                let staged = out.into_inner().map_err(|error| failed(error.into_error()))?;
                staged.commit().map_err(|error| CliError::of("io", error))
            }
        }
    }

    /// The error that a failed write to this place is.
    pub(crate) fn failed(&self, error: io::Error) -> CliError {
        CliError::writing(&self.name, error)
    }

    fn remember(&mut self, error: &io::Error) {
        self.failure = Some(io::Error::new(error.kind(), error.to_string()));
    }

    /// Hands on what is held, so that what is said elsewhere comes after it.
    pub(crate) fn settle(&mut self) -> Result<(), CliError> {
        self.flush().map_err(|error| self.failed(error))
    }

    /// The error of this place behind a failure that somebody else reports, where there is one.
    pub(crate) fn take_failure(&mut self) -> Option<CliError> {
        let error = self.failure.take()?;
        Some(CliError::writing(&self.name, error))
    }

    /// Whether this is standard output, whose terminal, if it is one, limits the width.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.inner, Inner::Standard(_))
    }

    /// Writes all of some bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.write_all(bytes).map_err(|error| self.failed(error))
    }

    /// Writes one JSON value over several lines, for people and programs alike, or on one where that was asked for.
    pub(crate) fn json(&mut self, value: &Value) -> Result<(), CliError> {
        if self.one_line {
            return self.json_line(value);
        }
        self.text(&value.laid_out())
    }

    /// Writes one JSON value on a line of its own.
    pub(crate) fn json_line(&mut self, value: &Value) -> Result<(), CliError> {
        serde_json::to_writer(&mut *self, value).map_err(|error| self.failed(error.into()))?;
        self.text("\n")
    }

    /// Writes all of a text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.write_all(text.as_bytes()).map_err(|error| self.failed(error))
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.inner {
            Inner::Standard(out) => out.write(bytes),
            Inner::Stream(out) => out.write(bytes),
            Inner::Staged(out) => out.write(bytes),
        };
        written.inspect_err(|error| self.remember(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.inner {
            Inner::Standard(out) => out.flush(),
            Inner::Stream(out) => out.flush(),
            Inner::Staged(out) => out.flush(),
        };
        flushed.inspect_err(|error| self.remember(error))
    }
}

/// What a path that the user gave to `-o` is.
enum Kind {
    /// A regular file, or nothing yet: the target, with symbolic links followed.
    Regular(PathBuf),
    /// Our own standard output under another name.
    StandardOutput,
    /// A pipe, a device, a socket.
    Stream,
    Folder,
}

/// Decides what the path is. Names of open descriptors are streams even where a regular file is behind them: the
/// shell that opened it owns its position, and it is not ours to replace.
fn kind(path: &Path) -> Kind {
    if path == Path::new("-") || path == Path::new("/dev/stdout") || path == Path::new("/dev/fd/1") {
        return Kind::StandardOutput;
    }
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Kind::Stream;
    }
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| followed(path));
    if target.starts_with("/dev") || target.starts_with("/proc") {
        return Kind::Stream;
    }
    match std::fs::metadata(&target) {
        Ok(metadata) if metadata.is_dir() => Kind::Folder,
        Ok(metadata) if !metadata.is_file() => Kind::Stream,
        _ => Kind::Regular(target),
    }
}

/// Where a symbolic link leads that leads to nothing yet: the file appears there, as it does when a shell writes
/// through such a link.
fn followed(path: &Path) -> PathBuf {
    const LINKS: usize = 40;
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&at) else { break };
        at = at.parent().map_or_else(|| link.clone(), |folder| folder.join(&link));
    }
    at
}

/// Gives a file the mode of the one that it will replace; what may not be read by others stays so.
fn keep_mode(target: &Path, staged: &StagedFile) {
    if let Ok(metadata) = std::fs::metadata(target)
        && let Err(error) = staged.file().set_permissions(metadata.permissions())
    {
        tracing::warn!(file = %target.display(), %error, "the mode of the file is not kept");
    }
}

#[cfg(unix)]
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_socket(_: &Path) -> bool {
    false
}

/// Opens something that is not a regular file, as it stands.
fn stream(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().append(true).open(path).or_else(|_| OpenOptions::new().write(true).open(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &Path) -> Place {
        Place { output: Some(path.to_path_buf()) }
    }

    #[test]
    fn cli_3_a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.csv");
        let mut dropped = to(&path).open().unwrap();
        dropped.text("half").unwrap();
        drop(dropped);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

        let mut out = to(&path).open().unwrap();
        out.text("whole\n").unwrap();
        assert!(!path.exists());
        out.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole\n");
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = to(folder.path()).open().err().unwrap();
        assert_eq!(error.exit, crate::error::Exit::Usage);
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_is_refused_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = to(&path).open().err().unwrap();
        assert!(error.why.unwrap().contains("it is a socket"));
        assert!(!error.next.unwrap().contains("room"));
    }

    #[test]
    fn the_ending_says_the_format() {
        let output = |name: &str| RowOutput { format: None, place: to(Path::new(name)) }.format();
        assert_eq!(output("a.CSV"), Format::Csv);
        assert_eq!(output("a.ndjson"), Format::Jsonl);
        assert_eq!(output("a.txt"), Format::Table);
        let asked = RowOutput { format: Some(Format::Json), place: to(Path::new("a.csv")) };
        assert_eq!(asked.format(), Format::Json);
    }

    #[test]
    fn an_ending_that_says_nothing_is_refused_unless_the_format_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let rows = |name: &str, format| {
            RowOutput { format, place: to(&folder.path().join(name)) }.open(&Terminal::plain()).err()
        };
        let error = rows("a.xlsx", None).unwrap();
        assert_eq!(error.exit, crate::error::Exit::Usage);
        assert!(error.why.unwrap().contains("`.csv`, `.json`, "));
        for name in ["a", "a.txt", "a.CSV", "a.parquet", ".hidden"] {
            assert!(rows(name, None).is_none(), "{name}");
        }
        assert!(rows("a.xlsx", Some(Format::Csv)).is_none());
        let shape =
            |name: &str, format| ShapePlace { format, place: to(&folder.path().join(name)) }.open().err();
        assert!(shape("a.csv", None).is_some() && shape("a.csv", Some(ShapeFormat::Json)).is_none());
        assert!(shape("a.json", None).is_none() && shape("a", None).is_none());
    }

    #[test]
    fn an_ending_of_another_format_is_refused_where_there_is_only_one() {
        let refused = |name: &str| to(Path::new(name)).ending_of_one("safetensors").err();
        for name in ["x.csv", "x.pt", "x.txt"] {
            let error = refused(name).unwrap();
            assert_eq!(error.exit, crate::error::Exit::Usage);
            assert!(error.next.unwrap().contains("`.safetensors`"));
        }
        for name in ["x", "x.safetensors", "x.SAFETENSORS", "/dev/null", "-"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_a_root_keeps_for_itself_is_refused() {
        let root = tempfile::tempdir().unwrap();
        waycairn_durable::ensure_format(root.path()).unwrap();
        let error = to(&root.path().join("FORMAT")).open().err().unwrap();
        assert!(error.why.unwrap().contains("keeps for itself") && error.next.is_some());
        to(&root.path().join("plot.csv")).open().unwrap().finish().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn cli_3_a_device_is_written_straight_through() {
        let mut out = to(Path::new("/dev/null")).open().unwrap();
        out.text("gone").unwrap();
        out.finish().unwrap();
        assert!(matches!(kind(Path::new("/dev/stdout")), Kind::StandardOutput));
    }

    #[cfg(unix)]
    #[test]
    fn cli_3_the_mode_of_a_replaced_file_is_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target.csv");
        let before = std::fs::File::options().write(true).create_new(true).open(&target).unwrap();
        before.set_permissions(std::fs::Permissions::from_mode(0o640)).unwrap();
        let mut out = to(&target).open().unwrap();
        out.text("new").unwrap();
        out.finish().unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    }

    #[cfg(unix)]
    #[test]
    fn cli_3_a_link_to_nothing_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink("below/second", &link).unwrap();
        std::os::unix::fs::symlink("target.csv", folder.path().join("below/second")).unwrap();
        let mut out = to(&link).open().unwrap();
        out.text("new").unwrap();
        out.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(folder.path().join("below/target.csv")).unwrap(), "new");
    }

    #[test]
    fn cli_1_jsonl_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.jsonl");
        let place = ShapePlace { format: None, place: to(&path) };
        let mut out = place.open().unwrap();
        out.json(&Value::Object(vec![("a".into(), Value::list([1_i64, 2])), ("b".into(), Value::Null)]))
            .unwrap();
        out.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":[1,2],\"b\":null}\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_keeps_its_place_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target.csv");
        drop(std::fs::File::options().write(true).create_new(true).open(&target).unwrap());
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut out = to(&link).open().unwrap();
        out.text("new").unwrap();
        out.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    }
}
