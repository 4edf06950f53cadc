//! Finding libraries in files and folders, and an analysis among them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{LoadError, SelectError};
use crate::foreign::ForeignAnalysis;
use crate::load::Library;

/// Where to look, in this order: files, folders that a user named, folders that need not be there.
///
/// The order of the command line, the settings, the environment and the default folders is the caller's to make;
/// nothing is looked at but what is listed here.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Libraries. Each gives one answer, whatever it is.
    pub files: Vec<PathBuf>,
    /// Folders that a user named. One that is missing is an answer with an error.
    pub dirs: Vec<PathBuf>,
    /// Folders that are looked into if they are there.
    pub default_dirs: Vec<PathBuf>,
}

/// A file that was looked at, and what came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The path: as given for a file, folder and name for one in a folder.
    pub path: PathBuf,
    /// The library, or why it was refused.
    pub result: Result<Library, LoadError>,
    /// Whether the user named the file, or the folder that it is in; otherwise it was found in a default folder.
    pub named: bool,
}

/// Opens what there is. A file that is refused does not keep others from being opened.
///
/// In a folder, files with the suffix of this system's libraries are opened, in the order of their names; hidden
/// files and folders in it are not. A file that is reached twice is opened once.
#[must_use]
pub fn discover(request: &Discovery) -> Vec<Found> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut open = |path: PathBuf, named: bool| {
        let identity = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.insert(identity) {
            let result = Library::open(&path);
            if let Err(error) = &result {
                tracing::debug!(path = %path.display(), error = %error, "plugin refused");
            }
            found.push(Found { path, result, named });
        }
    };
    for file in &request.files {
        open(file.clone(), true);
    }
    let mut failed = Vec::new();
    for (dir, named) in
        request.dirs.iter().map(|dir| (dir, true)).chain(request.default_dirs.iter().map(|dir| (dir, false)))
    {
        match libraries(dir) {
            Ok(files) => files.into_iter().for_each(|file| open(file, named)),
            Err(LoadError::NoFolder { .. }) if !named => {}
            Err(error) => failed.push(Found { path: dir.clone(), result: Err(error), named }),
        }
    }
    found.extend(failed);
    found
}

fn libraries(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let io = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => LoadError::NoFolder { path: dir.to_owned() },
        std::io::ErrorKind::NotADirectory => LoadError::NotAFolder { path: dir.to_owned() },
        _ => LoadError::Io { op: "list", path: dir.to_owned(), source },
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let suffix = path.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION);
        if suffix && !hidden && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Picks one analysis: `NAME`, or `FILE#NAME` where several libraries have one of that name. `FILE` is a path, a
/// file name, or a file name without what the system puts around it.
///
/// Two copies of one library, equal in every byte, count as one: the first.
///
/// # Errors
/// [`SelectError::Unknown`] with the nearest name; [`SelectError::Ambiguous`] with all libraries that have it.
pub fn select<'f>(found: &'f [Found], selector: &str) -> Result<&'f ForeignAnalysis, SelectError> {
    let (file, name) = match selector.rsplit_once('#') {
        Some((file, name)) => (Some(file), name),
        None => (None, selector),
    };
    let mut matching: Vec<&ForeignAnalysis> = Vec::new();
    for analysis in every(found) {
        let here =
            analysis.declaration().name == name && file.is_none_or(|file| is_file(file, analysis.path()));
        if here && matching.iter().all(|other| other.digest() != analysis.digest()) {
            matching.push(analysis);
        }
    }
    match matching.as_slice() {
        [one] => Ok(one),
        [] => {
            let known: BTreeSet<&str> = every(found).map(|a| a.declaration().name.as_str()).collect();
            Err(SelectError::Unknown {
                selector: selector.to_owned(),
                nearest: crate::nearest(name, known.iter().copied()),
                known: known.into_iter().map(str::to_owned).collect(),
            })
        }
        several => Err(ambiguous(name, several)),
    }
}

/// All analyses, in the order of discovery.
///
/// # Errors
/// [`SelectError::Ambiguous`] if two libraries that differ have an analysis of one name.
pub fn all(found: &[Found]) -> Result<Vec<&ForeignAnalysis>, SelectError> {
    apart(found, |_| true)
}

/// The analyses of the libraries that the user named, in the order of discovery.
///
/// # Errors
/// [`SelectError::Ambiguous`] if one of them has the name of an analysis in another library that was found, named or
/// not, and the libraries differ.
pub fn named(found: &[Found]) -> Result<Vec<&ForeignAnalysis>, SelectError> {
    apart(found, |found| found.named)
}

/// The analyses of the files that are `wanted`, each the only one of its name among all.
fn apart(found: &[Found], wanted: impl Fn(&Found) -> bool) -> Result<Vec<&ForeignAnalysis>, SelectError> {
    let mut analyses: Vec<&ForeignAnalysis> = Vec::new();
    for analysis in found.iter().filter(|found| wanted(found)).flat_map(of) {
        let name = &analysis.declaration().name;
        let namesakes: Vec<_> = every(found).filter(|other| other.declaration().name == *name).collect();
        if namesakes.iter().any(|other| other.digest() != analysis.digest()) {
            return Err(ambiguous(name, &namesakes));
        }
        if analyses.iter().all(|other| other.id() != analysis.id()) {
            analyses.push(analysis);
        }
    }
    Ok(analyses)
}

fn every(found: &[Found]) -> impl Iterator<Item = &ForeignAnalysis> {
    found.iter().flat_map(of)
}

/// The analyses of one file; none where it was refused.
fn of(found: &Found) -> &[ForeignAnalysis] {
    found.result.as_ref().map_or(&[], Library::analyses)
}

fn ambiguous(name: &str, several: &[&ForeignAnalysis]) -> SelectError {
    SelectError::Ambiguous {
        name: name.to_owned(),
        files: several.iter().map(|analysis| analysis.path().to_owned()).collect(),
    }
}

fn is_file(wanted: &str, path: &Path) -> bool {
    let wanted = Path::new(wanted);
    let same_place = || match (wanted.canonicalize(), path.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let bare = stem(path)
        .map(|stem| stem.strip_prefix(std::env::consts::DLL_PREFIX).map(str::to_owned).unwrap_or(stem));
    wanted == path
        || path.file_name() == Some(wanted.as_os_str())
        || bare.is_some_and(|bare| wanted.as_os_str() == bare.as_str())
        || same_place()
}
