//! The export macro, and the guard that keeps panics inside.
//!
//! Every body that a host can reach runs under a guard. A panic that left a body would end the process, since no
//! unwinding crosses an `extern "C"` frame; so it is caught here, with its text, its place and, if the environment
//! asks for one, its backtrace.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use serde_json::Value;

use crate::analysis::{Analysis, Declaration};
use crate::builder::BuildContext;
use crate::context::Context;
use crate::error::{AnalysisError, ErrorKind, Failure};
use crate::product::{Checked, Product, ProductDeclaration, Study};

pub use crate::abi::{Header, header};

/// Exports the analyses of a library. One line in a crate whose `crate-type` is `["cdylib"]`:
///
/// ```
/// # use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration};
/// # #[derive(Default)] struct A;
/// # impl Analysis for A {
/// #     fn declare() -> Declaration { Declaration::new("a", "1.0.0", "an example") }
/// #     fn analyze(&self, _: &Context<'_>) -> Result<(), AnalysisError> { Ok(()) }
/// # }
/// waycairn_analysis_api::export_analyses![A];
/// # fn main() {}
/// ```
///
/// A library that adds products and settings to a study names them in the long form; each part but the first may be
/// left out, and the list of analyses may be empty:
///
/// ```
/// # use waycairn_analysis_api::{
/// #     Analysis, AnalysisError, BuildContext, Context, Declaration, Product, ProductDeclaration, Study,
/// # };
/// # use waycairn_analysis_api::serde_json::{Value, json};
/// # #[derive(Default)] struct A;
/// # impl Analysis for A {
/// #     fn declare() -> Declaration { Declaration::new("a", "1.0.0", "an example").metric() }
/// #     fn analyze(&self, _: &Context<'_>) -> Result<(), AnalysisError> { Ok(()) }
/// # }
/// # struct P;
/// # impl Product for P {
/// #     fn declare() -> ProductDeclaration { ProductDeclaration::new("p", 1, "an example") }
/// #     fn select(study: &Study<'_>) -> Result<Value, AnalysisError> { Ok(study.pick(&["member"])?) }
/// #     fn build(_: &BuildContext<'_>) -> Result<(), AnalysisError> { Ok(()) }
/// # }
/// fn defaults() -> Value {
///     json!({"plotting": {"dpi": 140}})
/// }
///
/// waycairn_analysis_api::export_analyses! { analyses: [A], products: [P], settings: defaults }
/// # fn main() {}
/// ```
///
/// The settings are an object of sections, each an object of names and defaults that fix the types.
///
/// A library that computes on threads of its own takes their number from the host: `threads` is a `fn(usize)`, called
/// before anything of the library is built or analysed. It has statics of its own, and so a thread pool of its own, which
/// would take every core whatever the host was told to use:
///
/// ```
/// # use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration};
/// # #[derive(Default)] struct A;
/// # impl Analysis for A {
/// #     fn declare() -> Declaration { Declaration::new("a", "1.0.0", "an example") }
/// #     fn analyze(&self, _: &Context<'_>) -> Result<(), AnalysisError> { Ok(()) }
/// # }
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static THREADS: AtomicUsize = AtomicUsize::new(1);
///
/// fn threads(number: usize) {
///     THREADS.store(number, Ordering::Relaxed);
/// }
///
/// waycairn_analysis_api::export_analyses! { analyses: [A], threads: threads }
/// # fn main() {}
/// ```
///
/// A crate invokes it once. Panics must unwind: `panic = "abort"` is refused when the plugin is compiled.
#[macro_export]
macro_rules! export_analyses {
    (
        analyses: [$($analysis:ty),* $(,)?]
        $(, products: [$($product:ty),* $(,)?])?
        $(, settings: $settings:expr)?
        $(, threads: $threads:expr)?
        $(,)?
    ) => {
        #[cfg(panic = "abort")]
        compile_error!("an analysis must be built with panic = \"unwind\": the host reports a panic as an error");

        const _: () = {
            struct Library;

            impl $crate::export::Export for Library {
                const ENTRIES: &'static [$crate::export::Entry] =
                    &[$($crate::export::Entry::of::<$analysis>()),*];
                $(const PRODUCTS: &'static [$crate::export::ProductEntry] =
                    &[$($crate::export::ProductEntry::of::<$product>()),*];)?
                $(const SETTINGS: Option<fn() -> $crate::serde_json::Value> = Some($settings);)?
                $(const THREADS: Option<fn(usize)> = Some($threads);)?
            }

            #[unsafe(no_mangle)]
            pub static _1as_0lib_1header_0root_bmodule_bloader: $crate::export::Header =
                $crate::export::header::<Library>();
        };
    };
    ($($analysis:ty),+ $(,)?) => {
        $crate::export_analyses! { analyses: [$($analysis),+] }
    };
}

/// The analyses of one library; implemented by [`export_analyses!`](crate::export_analyses).
pub trait Export: 'static {
    /// In the order of the macro's arguments.
    const ENTRIES: &'static [Entry];
    /// In the order of the macro's arguments.
    const PRODUCTS: &'static [ProductEntry] = &[];
    /// Makes the defaults of the settings that the library adds to a study.
    const SETTINGS: Option<fn() -> Value> = None;
    /// Is told how many threads pools of the library's own may have.
    const THREADS: Option<fn(usize)> = None;
}

/// One exported product. Whoever calls these guards the call.
pub struct ProductEntry {
    pub(crate) declare: fn() -> ProductDeclaration,
    pub(crate) select: fn(&Study<'_>) -> Result<Value, AnalysisError>,
    pub(crate) estimate: fn(&Value) -> Result<Value, AnalysisError>,
    pub(crate) check: fn(&Value) -> Result<Checked, AnalysisError>,
    pub(crate) build: fn(&BuildContext<'_>) -> Result<(), AnalysisError>,
}

impl ProductEntry {
    /// The entry of a product.
    #[must_use]
    pub const fn of<P: Product>() -> Self {
        Self {
            declare: P::declare,
            select: P::select,
            estimate: P::estimate,
            check: P::check,
            build: P::build,
        }
    }
}

/// One exported analysis.
pub struct Entry {
    declare: fn() -> Result<Declaration, Failure>,
    run: fn(&Context<'_>) -> Result<(), Failure>,
}

impl Entry {
    /// The entry of an analysis.
    #[must_use]
    pub const fn of<A: Analysis>() -> Self {
        Self { declare: || guard(|| Ok(A::declare())), run: run::<A> }
    }

    pub(crate) fn declare(&self) -> Result<Declaration, Failure> {
        (self.declare)()
    }

    pub(crate) fn run(&self, context: &Context<'_>) -> Result<(), Failure> {
        (self.run)(context)
    }
}

/// Construction, call and drop are guarded one by one: a value that panics in both the call and its destructor
/// would otherwise panic while unwinding, which ends the process.
fn run<A: Analysis>(context: &Context<'_>) -> Result<(), Failure> {
    let analysis = guard(|| Ok(A::default()))?;
    let outcome = guard(|| analysis.analyze(context).map_err(Failure::from));
    let dropped = guard(move || {
        drop(analysis);
        Ok(())
    });
    outcome.and(dropped)
}

struct Report {
    text: String,
    place: String,
    backtrace: String,
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static REPORT: RefCell<Option<Report>> = const { RefCell::new(None) };
}

/// Runs a body; a panic in it becomes a failure.
pub(crate) fn guard<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    install_hook();
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    match outcome {
        Ok(result) => result,
        Err(payload) => Err(panicked(payload)),
    }
}

/// Runs a body without touching the panic hook: what a host uses, whose hook is its own.
pub(crate) fn guard_quietly<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(panicked(payload)),
    }
}

/// A library has its own copy of the standard library, so this hook sees the panics of this library alone. Those
/// of guarded bodies are kept as a report, any other goes where it went before.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if DEPTH.get() == 0 {
                return previous(info);
            }
            let backtrace = Backtrace::capture();
            let report = Report {
                text: payload_text(info.payload()),
                place: info.location().map(ToString::to_string).unwrap_or_default(),
                backtrace: match backtrace.status() {
                    BacktraceStatus::Captured => backtrace.to_string(),
                    _ => String::new(),
                },
            };
            // A panic while the report is borrowed keeps the first one.
            REPORT.with(|slot| {
                if let Ok(mut slot) = slot.try_borrow_mut() {
                    *slot = Some(report);
                }
            });
        }));
    });
}

fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let text = payload_text(&*payload);
    // The payload is the author's value, and its destructor may panic, too; what that throws is leaked.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    // A payload that came from another thread (rayon passes it on) left its report there.
    let report = REPORT.with(|slot| slot.take()).filter(|report| report.text == text);
    let (message, backtrace) = match report {
        Some(report) if !report.place.is_empty() => {
            (format!("{text}, at {}", report.place), report.backtrace)
        }
        Some(report) => (text, report.backtrace),
        None => (text, String::new()),
    };
    Failure { kind: ErrorKind::Panicked, message, backtrace }
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
