//! Where the output root is when nobody says so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use waycairn_durable::{VersionError, read_format};

/// The root of a project that names none.
const DEFAULT: [&str; 2] = ["outputs", "default"];

/// A root, and how it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    /// The folder; it need not exist.
    pub(crate) path: PathBuf,
    /// Whether the user named it or a marker showed it; otherwise it is only where a root would be made.
    pub(crate) found: bool,
}

/// The root that a writer makes or extends: the one named, else `outputs/default` here.
pub(crate) fn for_writer(named: Option<&Path>) -> Root {
    match named {
        Some(path) => Root { path: path.to_path_buf(), found: true },
        None => Root { path: DEFAULT.iter().collect(), found: false },
    }
}

/// The root that a reader means: the one named, else the nearest folder from `here` upward that holds `FORMAT`
/// or `outputs/default/FORMAT`, else `outputs/default` here, which then has nothing to read.
pub(crate) fn for_reader(named: Option<&Path>, here: &Path) -> Root {
    if named.is_some() {
        return for_writer(named);
    }
    let default: PathBuf = DEFAULT.iter().collect();
    for folder in here.ancestors() {
        if is_root(folder, false) {
            return Root { path: folder.to_path_buf(), found: true };
        }
        let inside = folder.join(&default);
        if is_root(&inside, true) {
            let path = if folder == here { default } else { inside };
            return Root { path, found: true };
        }
    }
    Root { path: default, found: false }
}

/// The root that readers mean so far, where a writer that names none is about to make another one in `here`.
pub(crate) fn passed_over(named: Option<&Path>, here: &Path) -> Option<PathBuf> {
    let made = DEFAULT.iter().fold(here.to_path_buf(), |path, part| path.join(part));
    if named.is_some() || is_root(&made, true) {
        return None;
    }
    let Root { path, found } = for_reader(None, here);
    found.then_some(path)
}

/// What a root keeps for itself, be it there yet or not: nothing that somebody else writes may stand there. It is what
/// the overview of docs/format.md lists, what lies beside it for the trainer and for studies, and all that is hidden.
const OWN: [&str; 11] = [
    "FORMAT",
    "objects",
    "cache",
    "locks",
    "plugins",
    "history.json",
    "pins.json",
    "runs",
    "source",
    "settings_training.toml",
    "settings_analysis.toml",
];

/// Whether a name at the top of a root is the root's own.
fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || OWN.iter().any(|own| name == *own)
}

/// The root among whose own files and folders a path lies, symbolic links in it followed; `None` for every other path,
/// one beside them in the folder of a root too. The path itself need not exist.
pub(crate) fn owner(path: &Path) -> Option<PathBuf> {
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?)
        }
    };
    let holds = |folder: &&Path| {
        let inside = path.strip_prefix(folder).ok().and_then(|inside| inside.iter().next());
        let own = inside.is_some_and(is_own);
        // Parts that were copied without the marker are read as a root too.
        own && (is_root(folder, folder.ends_with(DEFAULT.iter().collect::<PathBuf>()))
            || folder.join("objects/values").is_dir())
    };
    path.ancestors().skip(1).find(holds).map(Path::to_path_buf)
}

/// Whether the folder holds the marker. One of a version that this program cannot read, or a damaged one, still
/// marks a root, so that the error names it rather than an empty answer; in a folder that is not called like a root a
/// file `FORMAT` without our name in it is somebody else's.
fn is_root(folder: &Path, called_so: bool) -> bool {
    match read_format(folder) {
        Ok(version) => version.is_some(),
        Err(VersionError::Unreadable { .. }) => true,
        Err(VersionError::Garbled { text, .. }) => called_so || text.starts_with("waycairn"),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use waycairn_durable::ensure_format;

    use super::*;

    #[test]
    fn a_named_root_is_taken_as_it_is() {
        let here = tempfile::tempdir().unwrap();
        let named = Path::new("elsewhere");
        assert_eq!(for_reader(Some(named), here.path()).path, named);
        assert_eq!(for_writer(Some(named)).path, named);
    }

    #[test]
    fn a_writer_takes_the_default() {
        assert_eq!(for_writer(None).path, Path::new("outputs/default"));
    }

    #[test]
    fn a_reader_looks_upward() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(for_reader(None, &deep), Root { path: "outputs/default".into(), found: false });

        let default = top.path().join("outputs/default");
        ensure_format(&default).unwrap();
        assert_eq!(for_reader(None, &deep), Root { path: default, found: true });
        assert_eq!(for_reader(None, top.path()), Root { path: "outputs/default".into(), found: true });

        let near = top.path().join("a/b");
        ensure_format(&near).unwrap();
        assert_eq!(for_reader(None, &deep), Root { path: near, found: true });
    }

    #[test]
    fn a_writer_passes_over_a_root_above_until_it_has_its_own() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(passed_over(None, &deep), None);
        let default = top.path().join("outputs/default");
        ensure_format(&default).unwrap();
        assert_eq!(passed_over(None, &deep), Some(default.clone()));
        assert_eq!(passed_over(None, &default), Some(default));
        assert_eq!(passed_over(None, top.path()), None);
        assert_eq!(passed_over(Some(Path::new("named")), &deep), None);
        ensure_format(&deep.join("outputs/default")).unwrap();
        assert_eq!(passed_over(None, &deep), None);
    }

    #[test]
    fn a_root_of_a_newer_version_is_found() {
        let top = tempfile::tempdir().unwrap();
        write(&top.path().join("FORMAT"), b"waycairn 99.0\n");
        assert!(for_reader(None, top.path()).found);
    }

    #[test]
    fn a_file_of_that_name_may_be_somebody_elses() {
        let top = tempfile::tempdir().unwrap();
        write(&top.path().join("FORMAT"), b"PDF, please\n");
        assert!(!for_reader(None, top.path()).found);
        let default = top.path().join("outputs/default");
        std::fs::create_dir_all(&default).unwrap();
        write(&default.join("FORMAT"), b"");
        assert!(for_reader(None, top.path()).found);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_root_keeps_for_itself_is_known_by_every_name() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let root = top.join("root");
        ensure_format(&root).unwrap();
        std::fs::create_dir_all(root.join("objects/values")).unwrap();
        std::fs::create_dir_all(root.join("plots")).unwrap();
        std::fs::create_dir_all(top.join("elsewhere/objects")).unwrap();
        std::os::unix::fs::symlink(root.join("objects"), top.join("link")).unwrap();
        for name in [
            "root/FORMAT",
            "root/objects/x.csv",
            "root/objects/values/new",
            "link/values/x",
            "root/plots/../cache",
            // These are not there yet.
            "root/pins.json",
            "root/history.json",
            "root/.garbled-0123456789abcdef-history.json",
            "root/settings_training.toml",
            "root/runs",
        ] {
            assert_eq!(owner(&top.join(name)), Some(root.clone()), "{name}");
        }
        for name in [
            "x.csv",
            "root/plots/x.csv",
            "root/x.csv",
            "root/plots/pins.json",
            "root/plots/.x",
            "root/objects/../x.csv",
            "elsewhere/objects/x",
            "no/objects/x",
        ] {
            assert_eq!(owner(&top.join(name)), None, "{name}");
        }
        std::fs::remove_file(root.join("FORMAT")).unwrap();
        assert_eq!(owner(&root.join("objects/x")), Some(root));
    }

    #[test]
    fn what_the_overview_of_the_format_lists_is_the_roots_own() {
        let page = include_str!("../../../docs/format.md");
        let overview = page.split("```").nth(1).unwrap();
        // What is right below the root stands behind two spaces.
        let lines = overview.lines().filter_map(|line| line.strip_prefix("  "));
        let names: Vec<&str> = lines
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| Some(line.split_whitespace().next()?.trim_end_matches('/')))
            .collect();
        assert!(names.len() >= 7, "{names:?}");
        for name in names {
            assert!(is_own(OsStr::new(name)), "{name}");
        }
    }

    fn write(path: &Path, bytes: &[u8]) {
        waycairn_durable::write_file(path, bytes, waycairn_durable::Durability::Regenerable).unwrap();
    }
}
