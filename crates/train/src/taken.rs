//! Takes a recorded run, so that what it left can be removed: nobody trains it or opens its checkpoints meanwhile.

use std::path::PathBuf;

use waycairn_dag::Node;
use waycairn_durable::{FileLock, Holder, LockError, create_dir_all};
use waycairn_store::{NodeRow, ObjectReader, QueryError, Scalar};

use crate::error::TrainError;
use crate::hold::{self, Alone};
use crate::identity::MODEL_FIELD;
use crate::known::known_runs;
use crate::run::lock_name;

/// A run that is trained by nobody, and whose checkpoints nobody opens, until it is dropped.
#[derive(Debug)]
#[must_use = "the run is let go when this is dropped"]
pub struct TakenRun {
    _training: Option<FileLock>,
    _reading: Alone,
}

/// Takes a run. A run that the trainer did not make has no lock of its own: whoever writes it has to be ended before.
///
/// What other runs need of this one has to be asked after it was taken: whoever opened one of its checkpoints before
/// has recorded by then.
///
/// # Errors
///
/// [`TrainError::Busy`] while it is trained, [`TrainError::Read`] while one of its checkpoints is open,
/// [`TrainError::Lock`] where the file system has no locks; [`TrainError::Query`].
pub fn take_run(reader: &ObjectReader, run: &Node) -> Result<TakenRun, TrainError> {
    let training = match lock_path(reader, run)? {
        None => None,
        Some(path) => {
            create_dir_all(&reader.root().join("locks"))?;
            match FileLock::try_acquire(&path) {
                Ok(lock) => Some(lock),
                Err(LockError::Busy { path, holder }) => {
                    return Err(TrainError::Busy { name: run.name().to_owned(), lock: path, holder });
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    create_dir_all(&reader.root().join("locks"))?;
    let reading = hold::alone(reader.root(), run)?;
    let reading = reading.ok_or_else(|| TrainError::Read { name: run.name().to_owned() })?;
    Ok(TakenRun { _training: training, _reading: reading })
}

/// Says who trains a run at this moment.
///
/// # Errors
///
/// [`TrainError::Query`], [`TrainError::Lock`].
pub fn run_holder(reader: &ObjectReader, run: &Node) -> Result<Option<Holder>, TrainError> {
    Ok(match lock_path(reader, run)? {
        Some(path) => FileLock::is_held(&path)?,
        None => None,
    })
}

/// Lists the runs of studies by their first nodes, each with the key of its model, as 64 hex digits.
///
/// # Errors
///
/// Any [`QueryError`] of reading parts.
pub fn study_models(reader: &ObjectReader) -> Result<Vec<(Node, String)>, QueryError> {
    let rows = reader.query().seq(0).has(MODEL_FIELD).select(&[MODEL_FIELD])?.value;
    let key = |row: NodeRow| match row.fields.get(MODEL_FIELD) {
        Some(Scalar::Text(key)) => Some((row.node, key.clone())),
        _ => None,
    };
    Ok(rows.into_iter().filter_map(key).collect())
}

/// The lock that a launch of the run holds; `None` for a run that the trainer did not make.
fn lock_path(reader: &ObjectReader, run: &Node) -> Result<Option<PathBuf>, TrainError> {
    let known = known_runs(reader, run.name())?.into_iter().find(|known| known.nonce == run.nonce());
    let key = known.and_then(|known| known.key);
    Ok(key.map(|key| reader.root().join("locks").join(lock_name(&key))))
}
