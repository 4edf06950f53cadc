//! What two separately compiled libraries agree on. A change here is a change of the interface: see `docs/plugins.md`
//! for what a minor version may add, and where.

use std::mem::{align_of, offset_of, size_of};

use abi_stable::type_layout::TypeLayout;

use super::arrow::{ArrowArray, ArrowSchema};
use super::*;

#[test]
fn the_exported_symbol_is_the_one_that_a_host_looks_for() {
    assert_eq!(open::SYMBOL, "_1as_0lib_1header_0root_bmodule_bloader");
}

macro_rules! snapshot {
    ($($type:ty: $size:literal, $align:literal { $($field:ident: $offset:literal),* $(,)? })*) => {$(
        assert_eq!((size_of::<$type>(), align_of::<$type>()), ($size, $align), stringify!($type));
        $(assert_eq!(offset_of!($type, $field), $offset, "{}.{}", stringify!($type), stringify!($field));)*
    )*};
}

#[cfg(target_pointer_width = "64")]
#[test]
fn abi_2_sizes_and_offsets_are_those_of_interface_1_2() {
    snapshot! {
        PluginModule: 88, 8 {
            count: 0, declare: 8, analyze: 16, settings: 24, product_count: 32, product_declare: 40, product_select: 48,
            product_estimate: 56, product_check: 64, product_build: 72, threads: 80,
        }
        RawFailure: 72, 8 { code: 0, message: 8, backtrace: 40 }
        RawNode<'_>: 56, 8 { name: 0, nonce: 16, address: 32, seq: 48 }
        TensorView<'_>: 64, 8 { name: 0, dtype: 16, shape: 32, bytes: 48 }
        RawTensor: 128, 8 { name: 0, dtype: 32, shape: 64, bytes: 96 }
        RawScalar<'_>: 24, 8 {}
        RawField<'_>: 40, 8 { key: 0, value: 16 }
        RawProduct<'_>: 96, 8 { key: 0, metadata: 16, arrays: 32, documents: 64 }
        RawDocument<'_>: 32, 8 { name: 0, text: 16 }
        ContextObject<'_>: 16, 8 {}
        BuildObject<'_>: 16, 8 {}
        ArrowSchema: 72, 8 {}
        ArrowArray: 80, 8 {}
        ArrowArrayStream: 40, 8 {}
    }
}

fn field(layout: &'static TypeLayout, name: &str) -> &'static TypeLayout {
    // A reference to a prefix type has that type as a phantom field.
    let fields = layout.get_fields().into_iter().flatten().chain(layout.phantom_fields());
    fields.into_iter().find(|field| field.name() == name).unwrap().layout()
}

fn names(layout: &'static TypeLayout) -> Vec<&'static str> {
    layout.get_fields().unwrap().iter().map(|field| field.name()).collect()
}

#[test]
fn abi_2_functions_and_methods_are_in_the_order_of_interface_1_2() {
    let module = field(<PluginModuleRef as StableAbi>::LAYOUT, "0");
    assert_eq!(
        names(module),
        [
            "count",
            "declare",
            "analyze",
            // 1.1
            "settings",
            "product_count",
            "product_declare",
            "product_select",
            "product_estimate",
            "product_check",
            "product_build",
            // 1.2
            "threads",
        ]
    );

    assert_eq!(
        methods(<ContextObject<'_> as StableAbi>::LAYOUT, "node"),
        [
            "node",
            "parents",
            "settings",
            "experiment_settings",
            "weights",
            "batch",
            "forward",
            "scalars",
            "log",
            "emit_artifact",
            "emit_scalar",
            "emit_file",
            // 1.1
            "study",
            "product",
            "call",
            "emit_metric",
            "progress",
            "cancelled",
        ]
    );
    assert_eq!(
        methods(<BuildObject<'_> as StableAbi>::LAYOUT, "settings"),
        [
            "settings",
            "product",
            "weights",
            "batch",
            "forward",
            "call",
            "array",
            "json",
            "metadata",
            "progress",
            "log",
            "cancelled",
        ]
    );
}

/// The methods of an object from its first one on: the entries of abi_stable's own come before.
fn methods(object: &'static TypeLayout, first: &str) -> Vec<&'static str> {
    let names = names(field(field(field(object, "obj"), "vtable"), "0"));
    let first = names.iter().position(|name| *name == first).unwrap();
    names[first..].to_vec()
}
