//! The sources of a product or metric: files of this crate, and lists of the mathematics.

/// Makes the [`Sources`](waycairn_analysis_api::Sources) of files of this crate and of lists of [`waycairn_gaussian::sources`].
macro_rules! sources_of {
    ([$($path:literal),+ $(,)?], [$($part:ident),* $(,)?]) => {{
        use waycairn_gaussian::sources::{self, File};

        const PARTS: &[&[File]] = &[
            &[$((
                concat!(env!("CARGO_PKG_NAME"), "/", $path),
                include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)).as_slice(),
            )),+],
            $(sources::$part),*
        ];
        const FILES: &[File] = &sources::join::<{ sources::count(PARTS) }>(PARTS);
        waycairn_analysis_api::Sources::new(FILES)
    }};
}

pub(crate) use sources_of;
