//! SQL over one listing, on a runtime of our own.

use std::io;
use std::sync::{Arc, LazyLock};
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::SchemaError;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tokio::runtime::{Builder, Runtime};

use crate::listing::PartSet;
use crate::query::engine::threads;
use crate::query::fault::Fault;
use crate::query::provider::{Parts, Reports};
use crate::query::scope::IdentityScope;
use crate::query::{Diagnostic, QueryError, tables};
use crate::reader::edges;
use crate::schema::TEXT_SUFFIX;

/// The one runtime of the process, for DataFusion alone.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(threads())
        .thread_name("waycairn-query")
        .thread_stack_size(STACK_BYTES)
        .build()
});

/// Longest statement that is read.
const MAX_STATEMENT_BYTES: usize = 1 << 20;

/// Most operators and keywords of a statement. The planner descends into an expression one call a level, so this
/// and [`DEEP_STACK_BYTES`] belong together; and its time grows with the square of the depth.
const MAX_OPERATORS: usize = 5_000;

/// Statements up to this many operators and keywords run on the threads of [`RUNTIME`].
const MAX_SHALLOW_OPERATORS: usize = 500;

/// Stack of a thread that plans or runs an ordinary statement.
const STACK_BYTES: usize = 32 << 20;

/// Stack of the one thread that plans and runs a deep statement. It is reserved, and used as far as it is needed.
const DEEP_STACK_BYTES: usize = 256 << 20;

/// Pieces of a name that was written without quotes, words and what joins them, that are put together again.
const MAX_PIECES: usize = 32;

/// Answers an SQL query.
///
/// # Concurrency
/// It blocks the calling thread, and may be called on a thread of any runtime: planning and running happen on
/// threads with stacks of their own.
pub(crate) fn sql(
    set: &PartSet,
    text: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(SchemaRef, Vec<RecordBatch>), Fault> {
    let deep = is_deep(text).map_err(|error| Fault::Error(failed(error)))?;
    let not_started = |what: &str, error: &io::Error| {
        Fault::Error(QueryError::Thread { what: format!("{what} did not start: {error}") })
    };
    let (alone, several);
    let (runtime, partitions, stack) = if deep {
        // The operators of a deep statement would need deep stacks on every thread that runs them.
        alone = Builder::new_current_thread().build().map_err(|error| not_started("the runtime", &error))?;
        (&alone, 1, DEEP_STACK_BYTES)
    } else {
        several = RUNTIME.as_ref().map_err(|error| not_started("the runtime", error))?;
        (several, threads(), STACK_BYTES)
    };
    let reports = Reports::default();
    let small = small_tables(set, text)?;
    let answer = thread::scope(|scope| {
        let ask = || runtime.block_on(run(set, &small, text, partitions, &reports));
        let asking = thread::Builder::new().name("waycairn-sql".to_owned()).stack_size(stack);
        let asking = asking.spawn_scoped(scope, ask).map_err(|error| not_started("the thread", &error))?;
        Ok::<_, Fault>(asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    diagnostics.extend(reports.inexact.lock().map(|notes| notes.clone()).unwrap_or_default());
    answer.map_err(|error| {
        reports.take_fault().unwrap_or_else(|| {
            Fault::Error(match unquoted(set, text, &error) {
                Some(what) => QueryError::Sql { what, source: Box::new(error) },
                None => failed(error),
            })
        })
    })
}

/// Whether a statement needs a deep stack; one that would need too deep a stack is refused.
fn is_deep(text: &str) -> Result<bool, DataFusionError> {
    let bytes = text.len();
    if bytes > MAX_STATEMENT_BYTES {
        let what = format!("the statement has {bytes} bytes, and at most {MAX_STATEMENT_BYTES} are read");
        return Err(DataFusionError::Plan(what));
    }
    // What cannot be cut into tokens is refused by the parser with the place.
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
    let flat = |token: &&Token| match token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword || word.quote_style.is_some(),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => true,
        Token::Comma | Token::Period | Token::LParen | Token::RParen | Token::Whitespace(_) => true,
        _ => false,
    };
    let operators = tokens.iter().filter(|token| !flat(token)).count();
    if operators > MAX_OPERATORS {
        let what = format!(
            "the statement has {operators} operators and keywords, and at most {MAX_OPERATORS} are planned: `in (..)` \
             takes many values at once"
        );
        return Err(DataFusionError::Plan(what));
    }
    Ok(operators > MAX_SHALLOW_OPERATORS)
}

/// The tables that are made before a statement runs, where it names them.
fn small_tables(set: &PartSet, text: &str) -> Result<Vec<(&'static str, RecordBatch)>, Fault> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
    let names = |table: &str| {
        tokens
            .iter()
            .any(|token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(table)))
    };
    let mut tables = Vec::new();
    if names("edges") || names("information_schema") || names("tables") {
        tables.push(("edges", tables::edges(&edges(set, IdentityScope::default())?)?));
    }
    if names("blobs") || names("information_schema") || names("tables") {
        tables.push(("blobs", tables::blobs(set)?));
    }
    Ok(tables)
}

async fn run(
    set: &PartSet,
    small: &[(&str, RecordBatch)],
    text: &str,
    partitions: usize,
    reports: &Reports,
) -> Result<(SchemaRef, Vec<RecordBatch>), DataFusionError> {
    let config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    context.register_table("nodes", Arc::new(Parts::nodes(set, reports)))?;
    context.register_table("records", Arc::new(Parts::records(set, reports)))?;
    for (name, batch) in small {
        let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?;
        context.register_table(*name, Arc::new(table))?;
    }
    // A reader never changes anything: questions only.
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(text, options).await?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await?;
    Ok((schema, batches))
}

/// What is wrong with a statement that has no column of some name because that name is a piece of a field written
/// without quotes: `val/loss` is a division to SQL. `None` for any other error.
fn unquoted(set: &PartSet, text: &str, error: &DataFusionError) -> Option<String> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, .. } = error.as_ref() else { return None };
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().ok()?;
    let joins = |token: &Token| matches!(token, Token::Div | Token::Minus | Token::Period);
    let names = |token: &Token| match token {
        Token::Word(word) => word.quote_style.is_none(),
        Token::Number(..) => true,
        _ => false,
    };
    // Everything that stands together without a space between, and with the missing name and a slash in it.
    let chains = tokens.split(|token| !joins(token) && !names(token));
    let written = chains.filter_map(|chain| {
        let pieces: Vec<String> = chain.iter().map(ToString::to_string).collect();
        // The longest one first: `m/a/b` may be a field, and `m/a` another.
        let spans = (2..=pieces.len().min(MAX_PIECES))
            .rev()
            .flat_map(|length| (0..=pieces.len() - length).map(move |start| start..start + length));
        spans.into_iter().find_map(|span| {
            let of_span = pieces.get(span)?;
            let missing = of_span.iter().any(|piece| piece.eq_ignore_ascii_case(&field.name));
            let written = of_span.concat();
            let types =
                set.fields.types.get(written.as_str()).filter(|_| missing && written.contains('/'))?;
            // A field of texts alone has a column of another name.
            let suffix = if types.numeric().is_some() { "" } else { TEXT_SUFFIX };
            Some((format!("{written}{suffix}"), written))
        })
    });
    let (column, written) = written.into_iter().next()?;
    Some(format!(
        "there is no column `{}`, since `{written}` without quotes is a division; put it in double quotes: \"{column}\"",
        field.name
    ))
}

/// The part of an error text that says what is wrong.
pub(crate) fn failed(error: DataFusionError) -> QueryError {
    let what = error.strip_backtrace();
    QueryError::Sql { what: what.trim_end_matches('.').to_owned(), source: Box::new(error) }
}
