//! Element types of the arrays of products.

use std::fmt;

use crate::abi::Plain;
use crate::dtype::DType;

mod sealed {
    pub trait Sealed {}
}

/// The type of the elements of a product's array: `f32 f64 i32 i64 u8 u32 u64 bool` and [`Bf16`]. Nobody else can
/// implement it.
///
/// A truth value is one byte, 0 or 1, and `u8` in memory.
pub trait Element: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// What one element is in memory.
    type Value: Plain;
    /// Its type on disk.
    const DTYPE: DType;
}

/// Stands for arrays of `bfloat16`, whose elements are the upper halves of 32-bit floats, as `u16`.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

macro_rules! element {
    ($($type:ty, $value:ty, $dtype:ident;)+) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            type Value = $value;
            const DTYPE: DType = DType::$dtype;
        }
    )+};
}

element! {
    f32, f32, F32;
    f64, f64, F64;
    i32, i32, I32;
    i64, i64, I64;
    u8, u8, U8;
    u32, u32, U32;
    u64, u64, U64;
    bool, u8, Bool;
    Bf16, u16, BF16;
}
