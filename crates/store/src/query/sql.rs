//! SQL over one listing, on a runtime of our own.

use std::io;
use std::sync::{Arc, LazyLock};
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::listing::PartSet;
use crate::query::engine::threads;
use crate::query::fault::Fault;
use crate::query::provider::{Parts, Reports};
use crate::query::{Diagnostic, QueryError};

/// The one runtime of the process, for DataFusion alone.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(threads()).thread_name("waycairn-query").build()
});

/// Answers an SQL query.
///
/// # Concurrency
/// It blocks the calling thread, and may be called on a thread of any runtime: there it waits for a thread of
/// its own.
pub(crate) fn sql(
    set: &PartSet,
    text: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(SchemaRef, Vec<RecordBatch>), Fault> {
    let runtime = RUNTIME.as_ref().map_err(|error| {
        let what = format!("the runtime did not start: {error}");
        Fault::Error(QueryError::Thread { what })
    })?;
    let reports = Reports::default();
    let answer = if Handle::try_current().is_ok() {
        let outside =
            thread::scope(|scope| scope.spawn(|| runtime.block_on(run(set, text, &reports))).join());
        outside.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    } else {
        runtime.block_on(run(set, text, &reports))
    };
    diagnostics.extend(reports.inexact.lock().map(|notes| notes.clone()).unwrap_or_default());
    answer.map_err(|error| reports.take_fault().unwrap_or_else(|| Fault::Error(failed(error))))
}

async fn run(
    set: &PartSet,
    text: &str,
    reports: &Reports,
) -> Result<(SchemaRef, Vec<RecordBatch>), DataFusionError> {
    let config = SessionConfig::new().with_target_partitions(threads()).with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    context.register_table("nodes", Arc::new(Parts::nodes(set, reports)))?;
    context.register_table("records", Arc::new(Parts::records(set, reports)))?;
    // A reader never changes anything: questions only.
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(text, options).await?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await?;
    Ok((schema, batches))
}

/// The part of an error text that says what is wrong.
fn failed(error: DataFusionError) -> QueryError {
    let what = error.strip_backtrace();
    QueryError::Sql { what: what.trim_end_matches('.').to_owned(), source: Box::new(error) }
}
