//! The variables that are looked at, all of them; nothing below the binary reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `waycairn launch` sets for its workers.
pub(crate) const LAUNCHED: &str = "WAYCAIRN_LAUNCHED";

/// What the user's environment says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// `WAYCAIRN_ROOT`: the output root where `--root` is not given.
    pub(crate) root: Option<PathBuf>,
    /// `WAYCAIRN_LOG`: what is logged to standard error, as in `waycairn_store=debug`.
    pub(crate) log: Option<String>,
    /// `WAYCAIRN_PLUGIN_PATH`: folders with plugins, separated like `PATH`.
    pub(crate) plugin_path: Vec<PathBuf>,
    /// The user's data folder: `XDG_DATA_HOME`, else `~/.local/share`.
    pub(crate) data: Option<PathBuf>,
    /// Which worker of how many this process is, as a launcher says: `RANK` of `WORLD_SIZE`, else `SLURM_PROCID` of
    /// `SLURM_NTASKS`. Only a world of several counts, and what is no number is a dead launcher's.
    pub(crate) worker: Option<(u32, u32)>,
    /// `WAYCAIRN_LAUNCHED`: whether `waycairn launch` started this process, which says for all of its workers how to go on
    /// and is told by the one that ends the study.
    pub(crate) launched: bool,
    /// Whether `NO_COLOR` is unset or empty and `TERM` is not `dumb`.
    pub(crate) colour: bool,
}

impl Environment {
    /// Reads the variables. One that is empty counts as unset.
    #[expect(clippy::disallowed_methods, reason = "the one door to the environment")]
    pub(crate) fn read() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let paths = |value: OsString| {
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let number = |name: &str| set(name)?.to_str()?.trim().parse::<u32>().ok();
        let worker = |rank: &str, world: &str| {
            let (rank, world) = (number(rank)?, number(world)?);
            (world > 1 && rank < world).then_some((rank, world))
        };
        let data = set("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            root: set("WAYCAIRN_ROOT").map(PathBuf::from),
            log: set("WAYCAIRN_LOG").map(|value| value.to_string_lossy().into_owned()),
            plugin_path: set("WAYCAIRN_PLUGIN_PATH").map(paths).unwrap_or_default(),
            data: data.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/share"))),
            worker: worker("RANK", "WORLD_SIZE").or_else(|| worker("SLURM_PROCID", "SLURM_NTASKS")),
            launched: set(LAUNCHED).is_some(),
            colour: set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}
