//! The boundary as a user meets it: real libraries, opened from files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod authors;
mod discover;
mod guide;
mod kit;
mod product;
mod refuse;
mod run;
