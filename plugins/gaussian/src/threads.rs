//! The threads of this library.

/// Makes the pool that everything here computes in, of as many threads as the host says.
///
/// The library has statics of its own, and so a pool of its own: what the program made of its pool does not reach it.
pub(crate) fn use_threads(number: usize) {
    // A pool is made once in a process, and one that is there stays.
    drop(rayon::ThreadPoolBuilder::new().num_threads(number).build_global());
}
