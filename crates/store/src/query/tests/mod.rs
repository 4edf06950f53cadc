#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod asked;
mod cases;
mod concurrent;
mod damage;
mod foreign;
pub(super) mod kit;
mod nonces;
pub(super) mod oracle;
mod order;
mod promises;
mod runs;
mod scope;
mod sql;
mod stream;
mod terms;
mod wide;
