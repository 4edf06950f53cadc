//! The library as a study loads it: every product built, every metric answered, every plot drawn, over networks whose weights are known.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod arrays;
mod exact;
mod keys;
mod kit;
mod metrics;
mod planning;
mod plots;
mod scores;
mod threads;
