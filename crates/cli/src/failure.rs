//! Errors of the crates below as the user meets them: a code, what happened, why, what to do.

use std::path::Path;

use waycairn_analysis_host::{LoadError, SelectError};
use waycairn_cache::CacheError;
use waycairn_dag::Node;
use waycairn_durable::VersionError;
use waycairn_store::{ParseError, QueryError, ResolveError, StoreError, Table};
use waycairn_study::{SettingsError, StudyError};
use waycairn_train::TrainError;

use crate::error::{CliError, Exit, one_line};
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
        _ => CliError::of("root", error).or_system_next().default_next("choose another root with `--root`"),
    }
}

/// A study that did not come about, or not to its end.
pub(crate) fn study(error: StudyError) -> CliError {
    match error {
        StudyError::Settings(error) => {
            let next = error.next();
            match error {
                SettingsError::Absent { .. } => CliError::told("not_found", error, next),
                SettingsError::Unreadable { .. } => CliError::told("io", error, next),
                error => {
                    let more = match &error {
                        SettingsError::Refused { source, .. } => source.why(),
                        _ => None,
                    };
                    let mut told = CliError::told("settings", error, next).exit(Exit::Usage);
                    if let Some(more) = more {
                        let reason = told.why.take().map_or_else(String::new, |reason| format!("{reason}; "));
                        told = told.why(format!("{reason}{}", one_line(&more)));
                    }
                    told
                }
            }
        }
        StudyError::Train(error) => {
            let own = match &error {
                TrainError::Data(error) => error.next_in_study(),
                _ => None,
            };
            let told = train(error);
            match own {
                Some(next) => told.next(next),
                None => told,
            }
        }
        StudyError::Query(error) => query(error),
        StudyError::Cache(error) => cache(error),
        StudyError::NotFound { what, next } => CliError::new("not_found", what).next(next),
        StudyError::Kept { what, why, next } => CliError::new("refused", what).why(why).next(next),
        StudyError::Busy { .. } => CliError::of("busy", error)
            .next("wait for it to end: workers of one launch have the same settings and the same stage; another study can have another output"),
        StudyError::OverLimit { .. } => CliError::of("limit", error)
            .next("lower the settings that are named; nothing was written"),
        StudyError::Runs { ref source, .. } => {
            let next = of_first(source);
            let told = CliError::of("runs", error);
            let told = match next {
                Some(next) => told.next(next),
                None => told.or_system_next(),
            };
            told.default_next(
                "the same command goes on with the rest; `--keep-going` runs the others before it tells of failures",
            )
        }
        StudyError::Damaged { .. } => {
            CliError::of("corrupt", error).next("remove the run's folder, and launch the study again")
        }
        StudyError::Unlockable { .. } => {
            CliError::of("lock", error).next("try again, or remove by hand what `waycairn gc --dry-run` lists")
        }
        StudyError::InTheWay { .. } => {
            CliError::of("root", error).next("move it away, or name another output; nothing was written")
        }
        StudyError::Left { .. } => CliError::of("runs", error).next("run the same command again"),
        StudyError::Products { .. } => CliError::of("products", error)
            .default_next("correct settings_analysis.toml, or the plugin; `waycairn plugins` lists what is found"),
        error => CliError::of("study", error).or_system_next(),
    }
}

/// What to do about the first run that failed, where its error knows; as studies have it.
fn of_first(error: &StudyError) -> Option<String> {
    match error {
        StudyError::Train(TrainError::Data(error)) => error.next_in_study(),
        StudyError::Train(TrainError::Checkpoint { node, source, .. }) if source.is_damage() => {
            Some(format!(
                "take the checkpoint away with `waycairn rm {node} --yes`; the same command then trains the run once more"
            ))
        }
        StudyError::Cache(CacheError::Damaged { .. }) => Some(
            "set it aside with `waycairn verify --quarantine`; the same command then builds it again"
                .to_owned(),
        ),
        StudyError::NotFound { next, .. } => Some(next.clone()),
        _ => None,
    }
}

/// A cache that has no answer.
pub(crate) fn cache(error: CacheError) -> CliError {
    match error {
        CacheError::Format(error) => version(error),
        CacheError::Damaged { .. } => CliError::of("corrupt", error),
        CacheError::Gone { .. } => CliError::of("not_found", error),
        error => CliError::of("cache", error),
    }
}

/// A store that cannot be written.
pub(crate) fn store(error: StoreError) -> CliError {
    match error {
        StoreError::Format(error) => version(error),
        StoreError::Query(error) => query(error),
        error => CliError::of("store", error).or_system_next(),
    }
}

/// A training, a sample or an analysis that did not come about.
pub(crate) fn train(error: TrainError) -> CliError {
    match error {
        TrainError::Root(error) => version(error),
        TrainError::Query(error) => query(error),
        TrainError::Store(StoreError::Format(error)) => version(error),
        error => {
            let exit = if error.is_usage() { Exit::Usage } else { Exit::Failed };
            let (why, next) = (error.why(), error.next());
            let told = CliError::told(error.code(), error, next).exit(exit);
            match why {
                Some(why) => told.why(one_line(&why)),
                None => told,
            }
        }
    }
}

/// A library that is no plugin of this program.
pub(crate) fn plugin(error: &LoadError) -> CliError {
    CliError::line("plugin", &error.to_string())
        .split_why()
        .default_next("list what is found with `waycairn plugins`")
}

/// A name that picks no analysis.
pub(crate) fn select(error: SelectError) -> CliError {
    match error {
        SelectError::Unknown { selector, nearest, known } => {
            let unknown = CliError::new(
                "not_found",
                format!("no analysis `{}` among the plugins", printable(&selector)),
            )
            .why(format!("they have `{}`", known.join("`, `")));
            match nearest {
                Some(name) => unknown.next(format!("did you mean `{name}`?")),
                None => unknown.next("name one of these with `--analysis`"),
            }
        }
        SelectError::Ambiguous { name, files } => {
            let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
            CliError::new("ambiguous", format!("the analysis `{name}` is in several libraries"))
                .why(format!("they are {}, and they differ", files.join(", ")))
                .next(format!("pick one as `--analysis FILE#{name}`"))
        }
        error => CliError::of("not_found", error).default_next("list the analyses with `waycairn plugins`"),
    }
}

/// A question to the store that has no answer.
pub(crate) fn query(error: QueryError) -> CliError {
    match error {
        QueryError::Format(error) => version(error),
        QueryError::UnknownArtifact { node, suffix, nearest } => {
            let what = format!("{node} has no artifact `{}`", printable(&suffix));
            let attach = "attach one with `waycairn analyze`";
            match nearest.as_slice() {
                [] => CliError::new("not_found", what).why("it has no artifacts at all").next(attach),
                names => CliError::new("not_found", what)
                    .why(format!("its artifacts are `{}`", names.join("`, `")))
                    .next(format!("{attach}, or name one of those")),
            }
        }
        QueryError::Io { .. } => CliError::of("io", error),
        QueryError::Damaged { .. } | QueryError::Artifact { .. } | QueryError::UnsafePath { .. } => {
            CliError::of("corrupt", error).default_next("restore the file from a copy of the root")
        }
        QueryError::RecordScope { .. } | QueryError::TextOnly { .. } | QueryError::Reserved { .. } => {
            CliError::of("usage", error)
                .exit(Exit::Usage)
                .default_next("see the examples of `waycairn query --help`")
        }
        QueryError::Sql { what, .. } => {
            let what = one_line(&what);
            // The planner ends a message about an unknown column with the list of all columns; what we say of one
            // that is a piece of a field's name ends in what to write.
            let (why, next) = match (what.split_once("Valid fields are "), what.rsplit_once("; put it in ")) {
                (Some((why, fields)), _) => {
                    (why, format!("the columns are {}", fields.trim_end_matches('.')))
                }
                (None, Some((why, place))) => (why, format!("put it in {place}")),
                (None, None) if what.contains("table 'datafusion.") => {
                    (what.as_str(), "the tables are `nodes`, `records`, `edges` and `blobs`".to_owned())
                }
                (None, None) => (what.as_str(), "see the examples of `waycairn sql --help`".to_owned()),
            };
            let why = why.trim_end_matches([';', ' ', '.']);
            CliError::new("sql", "the statement has no answer").why(why).next(next)
        }
        _ => CliError::of("store", error),
    }
}

/// An expression that cannot be read, with a caret below the place.
pub(crate) fn parse(error: ParseError) -> CliError {
    let column = error.column();
    let why = format!("expected {}, found {}, at character {column}", error.expected, error.found);
    // What is seen of a long text is around the place.
    const SEEN: usize = 60;
    let at = column.saturating_sub(1);
    let long = error.text.chars().count() > 4 * SEEN;
    let (from, length) = if long { (at.saturating_sub(SEEN), 2 * SEEN) } else { (0, usize::MAX) };
    let text: String = error.text.chars().skip(from).take(length).collect();
    let (text, at) = (printable(&text), at - from);
    // Escapes and characters of double width would move the caret; text with them is rare enough to bear it.
    let caret = format!("{}^", " ".repeat(at));
    let next = if error.expected.contains("in single quotes") && error.found.starts_with("`\"") {
        "text stands in single quotes, and only a key in double ones"
    } else if error.expected.starts_with("a time from") {
        "compare with a time between these two"
    } else if error.found == "`like`" {
        "there are no patterns here: list what is meant, as in `name in ('a', 'b')`, or use LIKE in `waycairn sql`"
    } else {
        "keys are bare or in double quotes, strings in single quotes; see `waycairn query --help`"
    };
    CliError::usage("the expression cannot be read").why(why).picture(vec![text, caret]).next(next)
}

/// A text that names no node, or several.
pub(crate) fn resolve(error: ResolveError, text: &str, root: &Path) -> CliError {
    let text = printable(text);
    match error {
        ResolveError::AmbiguousNonce { count, candidates, .. } => {
            let (names, more) = first(&candidates, count);
            CliError::new("ambiguous", format!("`{text}` is written with the beginning of {count} nonces"))
                .why(format!("it may mean {names}{more}"))
                .next("write more of the nonce")
        }
        ResolveError::Ambiguous { count, candidates, .. } => {
            let (names, more) = first(&candidates, count);
            CliError::new("ambiguous", format!("`{text}` is the beginning of {count} addresses"))
                .why(format!("it may mean {names}{more}"))
                .next("write more of the address, or name the node as `name@nonce:seq`")
        }
        ResolveError::ShortNonce { candidates, .. } => unknown(&text, root)
            .why("a nonce is written with four characters or more")
            .next(format!("write more of it: `{}`", candidates.join("`, `"))),
        ResolveError::Unknown { nearest, .. } => {
            let unknown = unknown(&text, root);
            match nearest.as_slice() {
                [] => unknown,
                names => unknown.why(format!("the nearest are `{}`", names.join("`, `"))),
            }
        }
        ResolveError::Query(error) => query(error),
        _ => CliError::of("store", error),
    }
}

/// The first of several nodes, and what says that there are more.
pub(crate) fn first(candidates: &[Node], count: usize) -> (String, &'static str) {
    const SHOWN: usize = 4;
    let names = candidates.iter().take(SHOWN).map(|node| printable(&node.to_string()));
    (names.collect::<Vec<_>>().join(", "), if count > SHOWN { ", .." } else { "" })
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
    // The error of the table's writer hides the one of the place, which may be only a closed pipe.
    written.map_err(|error| out.take_failure().unwrap_or_else(|| query(error)))
}

#[cfg(test)]
mod tests {
    use waycairn_store::Expr;

    use super::*;

    #[test]
    fn of_a_long_expression_the_place_is_seen() {
        let text = format!("{} = = {}", "a".repeat(1_000), "b".repeat(1_000));
        let picture = parse(Expr::parse(&text).unwrap_err()).picture;
        assert_eq!((picture[0].len(), picture[1].len()), (120, 61));
        assert_eq!(picture[0].as_bytes()[60], b'=');
        assert_eq!(parse(Expr::parse("a = = b").unwrap_err()).picture, ["a = = b", "    ^"]);
    }

    #[test]
    fn an_expression_that_cannot_be_read_has_the_advice_that_fits() {
        let next = |text: &str| String::from(parse(Expr::parse(text).unwrap_err()).next.unwrap());
        for text in ["name = \"tiny\"", "note != \"a b\"", "name in (\"a\")"] {
            assert!(next(text).starts_with("text stands in single quotes"), "{text}");
        }
        for text in ["name like 'a%'", "note like 'a%'", "tag like 'a'"] {
            assert!(next(text).starts_with("there are no patterns here"), "{text}");
        }
        assert!(next("written < '9999-12-31'").starts_with("compare with a time"));
        for text in ["a = tiny", "a < 2 \"b\"", "a <"] {
            assert!(next(text).starts_with("keys are bare"), "{text}");
        }
    }
}
