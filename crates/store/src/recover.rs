//! Recovery: what the journals of dead writers hold is published.
//!
//! | it ended | then |
//! | --- | --- |
//! | before all parts of a segment were published | the segment is there, and is recovered again; its records may be there twice, which the fold does not see |
//! | before the segment was removed | the same |
//!
//! A record keeps its writer, process and place in the order of writes, so an answer does not depend on who published it.

use std::io;
use std::path::{Path, PathBuf};

use waycairn_durable::{OwnedFile, fault, open_file};

use crate::batch::Batch;
use crate::error::StoreError;
use crate::frame::{self, Segment};
use crate::journal::{damaged_name, is_news, segments};
use crate::part::{new_part_name, values_folder};
use crate::retry::RetryPolicy;
use crate::writer::publish_table;

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoverReport {
    /// Segments of dead writers whose records are in parts now.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Parts that were published for them.
    pub parts: u64,
    /// Bytes of frames that were not written whole, at the ends of segments: records that were not journaled.
    pub torn_bytes: u64,
    /// Segments in which other bytes stand than were written. What is whole in them was published, and they were kept
    /// under these names.
    pub damaged: Vec<PathBuf>,
    /// Segments of writers that live, which were left alone.
    pub live: u64,
}

/// Publishes what the journals of dead writers under a root hold. A root without any is left as it is.
///
/// It may run beside writers, readers and other recoveries. [`ObjectStore::open`](crate::ObjectStore::open) does it too.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Lock`], [`StoreError::Part`], [`StoreError::Commit`] when something cannot be read
/// or published. What was not published is still in its segment; the other segments were recovered.
///
/// # Durability
/// On return what was recovered survives a loss of power.
pub fn recover(root: &Path) -> Result<RecoverReport, StoreError> {
    let (report, failed) = recover_each(root)?;
    failed.map_or(Ok(report), Err)
}

/// Recovers what can be, and says what kept the first segment of the others from it. The log has named each of those, once
/// in a process.
///
/// # Errors
/// [`StoreError::Io`] when the folder cannot be listed.
pub(crate) fn recover_each(root: &Path) -> Result<(RecoverReport, Option<StoreError>), StoreError> {
    let values = values_folder(root);
    let mut report = RecoverReport::default();
    let mut failed = None;
    let failed_to_list = |source| StoreError::Io { operation: "list", path: values.clone(), source };
    for path in segments(&values).map_err(failed_to_list)? {
        if let Err(error) = recover_segment(&values, &path, &mut report) {
            if is_news(&path) {
                let cause = std::error::Error::source(&error).map(tracing::field::display);
                tracing::warn!(segment = %path.display(), %error, cause, "a segment could not be recovered");
            }
            failed = failed.or(Some(error));
        }
    }
    if report.records > 0 || report.torn_bytes > 0 {
        tracing::info!(
            records = report.records,
            segments = report.segments,
            torn_bytes = report.torn_bytes,
            "recovered what dead writers had queued"
        );
    }
    Ok((report, failed))
}

/// Reads a segment; `None` when it is gone.
pub(crate) fn read_segment(path: &Path) -> io::Result<Option<(Segment, usize)>> {
    use std::io::Read as _;
    let mut file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some((frame::read(&bytes), bytes.len())))
}

fn recover_segment(values: &Path, path: &Path, report: &mut RecoverReport) -> Result<(), StoreError> {
    let Some(owned) = OwnedFile::take(path).map_err(Box::new)? else {
        report.live += u64::from(path.exists());
        return Ok(());
    };
    let failed = |source| StoreError::Io { operation: "read", path: path.to_owned(), source };
    let Some((segment, bytes)) = read_segment(path).map_err(failed)? else { return Ok(()) };
    if segment.foreign {
        return Err(failed(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is no segment of a journal that this program knows",
        )));
    }
    if let Some(launch) = &segment.launch {
        for rows in &segment.rows {
            for table in Batch::new(rows, launch).tables() {
                publish_table(values, &new_part_name(), &table, &RetryPolicy::default())?;
                report.parts += 1;
            }
        }
    }
    fault::point("store.journal.recover");
    report.segments += 1;
    report.records += segment.records();
    report.torn_bytes += (bytes - segment.whole) as u64;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if segment.damaged > 0 {
        let kept = path.with_file_name(damaged_name(name));
        tracing::warn!(
            segment = %kept.display(),
            frames = segment.damaged,
            "a segment of the journal is damaged; it was kept, and what is whole in it was published"
        );
        owned.rename(&kept)?;
        report.damaged.push(kept);
    } else {
        owned.remove()?;
    }
    Ok(())
}
