//! The handshake: who built the library and how, before anything of it is called.

use std::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstabilityErrors, ExpectedFound, check_layout_compatibility,
};
use abi_stable::library::{AbiHeader, AbiHeaderRef, LibraryError, ROOT_MODULE_LOADER_NAME, RootModule};
use abi_stable::sabi_types::VersionNumber;
use abi_stable::std_types::{RErr, ROk, RResult, RString};
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};
use abi_stable::type_level::downcasting::TD_Opaque;

use super::arrow::ArrowArrayStream;
use super::bridge::Bridge;
use super::build::{BuildBridge, BuildObject};
use super::{ContextObject, PluginModuleRef, RawFailure};
use crate::error::{ErrorKind, Failure};
use crate::export::guard_quietly;
use crate::host::{BuildHost, Facts, Host, OpenError};
use crate::stream::ArrowStream;

/// The symbol that a plugin exports.
pub const SYMBOL: &str = ROOT_MODULE_LOADER_NAME;

/// The functions of one opened library.
#[derive(Clone, Copy)]
pub struct Plugin {
    module: PluginModuleRef,
    version: VersionNumber,
}

/// Checks the header of an opened library and sets the plugin up.
///
/// The order is the promise: the mark and version of the header's own layout; the interface's major version; the
/// layout of every type that crosses, older side as the interface and newer side as its implementation, so that
/// each side may have fields and methods that the other lacks. Only then is the plugin's constructor called.
///
/// # Errors
/// See [`OpenError`]; nothing of the plugin was called unless it is `Start`, or `Foundation` with a text about the
/// C ABI.
///
/// # Safety
/// `header` is the address of the symbol [`SYMBOL`] of a library that stays open for the rest of the process.
pub unsafe fn open(header: *const c_void) -> Result<Plugin, OpenError> {
    let caught = guard_quietly(|| {
        // SAFETY: by the caller's promise.
        Ok(unsafe { open_inner(header) })
    });
    caught.unwrap_or_else(|failure| Err(OpenError::Foundation { text: failure.message }))
}

/// # Safety
/// As [`open`].
unsafe fn open_inner(header: *const c_void) -> Result<Plugin, OpenError> {
    if header.is_null() || !header.cast::<AbiHeader>().is_aligned() {
        return Err(OpenError::Foundation { text: "its header has no address".to_owned() });
    }
    // SAFETY: the symbol is the header's address, and `AbiHeaderRef` is a transparent reference to it.
    let header = unsafe { std::mem::transmute::<*const c_void, AbiHeaderRef>(header) };
    let header = header.upgrade().map_err(foundation)?;

    let theirs = VersionNumber::new(header.version_strings())
        .map_err(|_| OpenError::Foundation { text: "its interface version is no version".to_owned() })?;
    let ours = VersionNumber::new(PluginModuleRef::VERSION_STRINGS).map_err(|_| OpenError::Foundation {
        text: "this host's interface version is no version".to_owned(),
    })?;
    if theirs.major != ours.major {
        return Err(OpenError::Api { plugin: theirs.to_string(), host: ours.to_string() });
    }

    let our_layout = <PluginModuleRef as StableAbi>::LAYOUT;
    let their_layout = header
        .layout()
        .ok_or_else(|| OpenError::Foundation { text: "it carries no description of its types".to_owned() })?;
    let plugin_is_newer = (theirs.minor, theirs.patch) >= (ours.minor, ours.patch);
    let (older, newer) =
        if plugin_is_newer { (our_layout, their_layout) } else { (their_layout, our_layout) };
    if let Err(errors) = check_layout_compatibility(older, newer) {
        let (first, second) = difference(&errors);
        let (expected, found) = if plugin_is_newer { (first, second) } else { (second, first) };
        return Err(OpenError::Layout {
            expected: format!("{expected} (interface {ours})"),
            found: format!("{found} (interface {theirs})"),
            detail: errors.to_string(),
        });
    }

    // SAFETY: the layouts were compared above.
    let module = unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() }
        .map_err(|error| OpenError::Start { text: error.to_string() })?;
    Ok(Plugin { module, version: theirs })
}

fn foundation(error: LibraryError) -> OpenError {
    let text = match error {
        LibraryError::InvalidAbiHeader(header) => format!(
            "its boundary has the format {}.{}, this host's has {}.{}",
            header.abi_major,
            header.abi_minor,
            AbiHeader::VALUE.abi_major,
            AbiHeader::VALUE.abi_minor
        ),
        LibraryError::InvalidCAbi { .. } => "its compiler passes arguments in another way".to_owned(),
        other => other.to_string(),
    };
    OpenError::Foundation { text }
}

/// The innermost difference, one line for each side: the path of fields to it, and its type.
fn difference(errors: &AbiInstabilityErrors) -> (String, String) {
    let deepest =
        errors.errors.iter().filter(|error| !error.errs.is_empty()).max_by_key(|e| e.stack_trace.len());
    let Some(error) = deepest else {
        return (layout_name(errors.interface), layout_name(errors.implementation));
    };
    let side = |pick: fn(&ExpectedFound<TLFieldOrFunction>) -> &TLFieldOrFunction| {
        let mut path = String::from("PluginModule");
        for step in &error.stack_trace {
            // Wrappers of abi_stable's own and the functions in a field add nothing.
            if let TLFieldOrFunction::Field(field) = pick(step)
                && !matches!(field.name(), "0" | "obj" | "vtable")
            {
                path.push('.');
                path.push_str(field.name().trim_start_matches('_'));
            }
        }
        path
    };
    let layout = |pick: fn(&ExpectedFound<TLFieldOrFunction>) -> &TLFieldOrFunction, whole| {
        let last = error.stack_trace.last().map(pick);
        match last {
            Some(TLFieldOrFunction::Field(field)) => layout_name(field.layout()),
            Some(TLFieldOrFunction::Function(function)) => function.to_string().replace('\n', " "),
            None => layout_name(whole),
        }
    };
    let of = |pick, whole| format!("`{}`: {}", side(pick), layout(pick, whole));
    (of(|pair| &pair.expected, errors.interface), of(|pair| &pair.found, errors.implementation))
}

/// A type with its size and the names and types of its fields, in one line of bounded length.
fn layout_name(layout: &'static TypeLayout) -> String {
    const LIMIT: usize = 300;
    let mut text = format!("{} of {} bytes", layout.full_type(), layout.size());
    if let Some(fields) = layout.get_fields() {
        let names: Vec<String> =
            fields.iter().map(|field| format!("{}: {}", field.name(), field.full_type())).collect();
        if !names.is_empty() {
            text.push_str(" { ");
            text.push_str(&names.join(", "));
            text.push_str(" }");
        }
    }
    if let Some((end, _)) = text.char_indices().nth(LIMIT) {
        text.truncate(end);
        text.push_str(" ..");
    }
    text
}

impl Plugin {
    /// The version of the interface that the plugin was built with.
    #[must_use]
    pub fn version(&self) -> String {
        self.version.to_string()
    }

    /// How many analyses it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.module.count()()
    }

    /// The declaration of one as JSON text.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn declare(&self, index: usize) -> Result<String, Failure> {
        text(self.module.declare()(index))
    }

    /// Makes one, calls it with a context, drops it.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn analyze(&self, index: usize, facts: &Facts, host: &dyn Host) -> Result<(), Failure> {
        let bridge = Bridge { facts, host };
        let context: ContextObject<'_> = ContextObject::from_ptr(&bridge, TD_Opaque);
        match self.module.analyze()(index, context) {
            ROk(()) => Ok(()),
            RErr(failure) => Err(failure.into()),
        }
    }
}

/// Products and settings. A plugin of an interface before 1.1 has none.
impl Plugin {
    /// The settings that the library adds to a study as JSON text.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn settings(&self) -> Result<String, Failure> {
        self.module.settings().map_or_else(|| Ok("{}".to_owned()), |settings| text(settings()))
    }

    /// How many products it has.
    #[must_use]
    pub fn products(&self) -> usize {
        self.module.product_count().map_or(0, |count| count())
    }

    /// The declaration of one as JSON text.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn declare_product(&self, index: usize) -> Result<String, Failure> {
        text(here(self.module.product_declare())?(index))
    }

    /// What its builder gets, as JSON text, of training settings, analysis settings (JSON texts) and member.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn select(
        &self,
        index: usize,
        training: &str,
        analysis: &str,
        member: &str,
    ) -> Result<String, Failure> {
        text(here(self.module.product_select())?(index, training.into(), analysis.into(), member.into()))
    }

    /// What building with the selected settings takes, as JSON texts.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn estimate(&self, index: usize, selected: &str) -> Result<String, Failure> {
        text(here(self.module.product_estimate())?(index, selected.into()))
    }

    /// Whether it may be built with the selected settings, as JSON texts.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn check(&self, index: usize, selected: &str) -> Result<String, Failure> {
        text(here(self.module.product_check())?(index, selected.into()))
    }

    /// Builds one.
    ///
    /// # Errors
    /// What the plugin met, a panic included.
    pub fn build(&self, index: usize, host: &dyn BuildHost) -> Result<(), Failure> {
        let bridge = BuildBridge { host };
        let context: BuildObject<'_> = BuildObject::from_ptr(&bridge, TD_Opaque);
        match here(self.module.product_build())?(index, context) {
            ROk(()) => Ok(()),
            RErr(failure) => Err(failure.into()),
        }
    }
}

/// Threads. A plugin of an interface before 1.2 is not told.
impl Plugin {
    /// Tells how many threads pools of its own may have, before anything is built or analysed.
    ///
    /// # Errors
    /// A panic of the plugin.
    pub fn use_threads(&self, number: usize) -> Result<(), Failure> {
        match self.module.threads().map(|threads| threads(number)) {
            None | Some(ROk(())) => Ok(()),
            Some(RErr(failure)) => Err(failure.into()),
        }
    }
}

fn text(answer: RResult<RString, RawFailure>) -> Result<String, Failure> {
    match answer {
        ROk(text) => Ok(text.into_string()),
        RErr(failure) => Err(failure.into()),
    }
}

/// A function that came with 1.1.
fn here<F>(function: Option<F>) -> Result<F, Failure> {
    function.ok_or_else(|| Failure {
        kind: ErrorKind::Unavailable,
        message: "this plugin is of an interface before 1.1, which has no products".to_owned(),
        backtrace: String::new(),
    })
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("version", &self.version()).finish_non_exhaustive()
    }
}

/// Takes a stream that another Arrow library made. The source is left released.
///
/// # Safety
/// `source` points to a live `struct ArrowArrayStream` of the Arrow C stream interface, or one that is released,
/// whose reader may be used from any thread.
pub unsafe fn stream_from_raw(source: *mut ArrowArrayStream) -> ArrowStream {
    // SAFETY: by the caller's promise; all-zero bytes are a released stream.
    ArrowStream::new(unsafe { std::ptr::replace(source, std::mem::zeroed()) })
}
