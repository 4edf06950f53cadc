//! Errors of the crates below as the user meets them: a code, what happened, why, what to do.

use std::path::Path;

use waycairn_durable::VersionError;
use waycairn_store::{ParseError, QueryError, ResolveError, Table};

use crate::error::CliError;
use crate::output::{Destination, Format};
use crate::table::printable;

/// A root that cannot be used.
pub(crate) fn version(error: VersionError) -> CliError {
    match &error {
        VersionError::Unreadable { path, found, supported }
        | VersionError::ReadOnly { path, found, supported } => {
            let root = path.parent().unwrap_or(path).display();
            let verb = if matches!(error, VersionError::Unreadable { .. }) { "reads" } else { "writes" };
            CliError::new("version", format!("the root `{root}` was made by a newer waycairn"))
                .why(format!(
                    "`{}` says format {found}, and this program {verb} up to {supported}",
                    path.display()
                ))
                .next("upgrade waycairn, or choose another root with `--root`")
        }
        VersionError::Garbled { .. } => CliError::of("corrupt", error),
        _ => CliError::of("root", error).default_next("choose another root with `--root`"),
    }
}

/// A question to the store that has no answer.
pub(crate) fn query(error: QueryError) -> CliError {
    match error {
        QueryError::Format(error) => version(error),
        QueryError::UnknownArtifact { node, suffix, nearest } => {
            let what = format!("{node} has no artifact `{}`", printable(&suffix));
            let why = match nearest.as_slice() {
                [] => "it has no artifacts at all".to_owned(),
                names => format!("its artifacts are `{}`", names.join("`, `")),
            };
            CliError::new("not_found", what)
                .why(why)
                .next("attach one with `waycairn analyze`, or name one of those")
        }
        QueryError::Io { .. } => CliError::of("io", error),
        QueryError::Damaged { .. } | QueryError::Artifact { .. } | QueryError::UnsafePath { .. } => {
            CliError::of("corrupt", error).default_next("restore the file from a copy of the root")
        }
        QueryError::RecordScope { .. } | QueryError::TextOnly { .. } | QueryError::Reserved { .. } => {
            CliError::of("expression", error).default_next("see the examples of `waycairn query --help`")
        }
        QueryError::Sql { .. } => CliError::of("sql", error)
            .default_next("see `waycairn sql --help`; keys stand in double quotes, strings in single ones"),
        _ => CliError::of("store", error),
    }
}

/// An expression that cannot be read, with a caret below the place.
pub(crate) fn parse(error: ParseError) -> CliError {
    let column = error.column();
    let why = format!("expected {}, found {}, at character {column}", error.expected, error.found);
    let text = printable(&error.text);
    // Escapes and characters of double width would move the caret; text with them is rare enough to bear it.
    let caret = format!("{}^", " ".repeat(column.saturating_sub(1)));
    CliError::new("expression", "the expression cannot be read")
        .why(why)
        .picture(vec![text, caret])
        .next("keys are bare or in double quotes, strings in single quotes; see `waycairn query --help`")
}

/// A text that names no node, or several.
pub(crate) fn resolve(error: ResolveError, text: &str, root: &Path) -> CliError {
    let text = printable(text);
    match error {
        ResolveError::Ambiguous { candidates } => {
            const SHOWN: usize = 5;
            let names =
                candidates.iter().take(SHOWN).map(|node| format!("`{}`", printable(&node.to_string())));
            let more = if candidates.len() > SHOWN { ", .." } else { "" };
            let names = names.collect::<Vec<_>>().join(", ");
            CliError::new("ambiguous", format!("`{text}` may be any of {} nodes", candidates.len()))
                .why(format!("it fits {names}{more}"))
                .next("give more of the address, or `name@nonce:seq`")
        }
        ResolveError::Unknown { nearest } => {
            let mut unknown = unknown(&text, root);
            if !nearest.is_empty() {
                unknown.why = Some(format!("the nearest names are `{}`", nearest.join("`, `")));
            }
            unknown
        }
    }
}

/// A node of which nothing is recorded.
pub(crate) fn unknown(text: &str, root: &Path) -> CliError {
    CliError::new("not_found", format!("no node `{}` in `{}`", printable(text), root.display()))
        .why("nothing is recorded for it")
        .next("list the runs with `waycairn nodes`")
}

/// Writes an Arrow table in one of its own formats.
pub(crate) fn write_table(table: &Table, format: Format, out: &mut Destination) -> Result<(), CliError> {
    let written = match format {
        Format::Parquet => table.write_parquet(&mut *out),
        _ => table.write_arrow(&mut *out),
    };
    written.map_err(query)
}
