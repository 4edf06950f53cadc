//! The device, chosen at run time and passed on explicitly: Burn's own default is the first
//! backend that was compiled, not the first that works.

use burn::tensor::Device;

/// A device that computes.
#[derive(Clone, Debug)]
pub(crate) struct Compute {
    device: Device,
    name: &'static str,
}

impl Compute {
    /// Chooses by the text of `--device`.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] for a device that this build does not have, or a text that names none.
    pub(crate) fn choose(text: &str) -> Result<Self, DeviceError> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, Some(index)),
            None => (text, None),
        };
        match (kind, index) {
            ("auto" | "cpu", None) => Ok(Self { device: Device::flex(), name: "cpu" }),
            ("cuda" | "wgpu", _) | ("vulkan" | "metal", None) => {
                Err(DeviceError::NotBuilt { device: text.to_owned() })
            }
            _ => Err(DeviceError::Unknown { device: text.to_owned() }),
        }
    }

    /// Returns Burn's handle.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the name that is recorded.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the library that computes.
    pub(crate) fn backend(&self) -> &'static str {
        "burn-flex"
    }

    /// Whether operations are done when they return, so that reading a number waits for nothing.
    pub(crate) fn is_eager(&self) -> bool {
        self.name == "cpu"
    }
}

/// A device that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no backend for it.
    #[error("this version has no backend for the device `{device}`")]
    NotBuilt {
        /// The device as asked for.
        device: String,
    },
    /// No device is called so.
    #[error("no device is called `{device}`")]
    Unknown {
        /// The device as asked for.
        device: String,
    },
    /// More threads than can be of use.
    #[error("{wanted} threads are too many")]
    TooManyThreads {
        /// The number asked for.
        wanted: usize,
        /// The largest that is accepted.
        most: usize,
    },
    /// Computing began before with another number of threads.
    #[error("{wanted} threads were asked for, and {running} compute already")]
    Threads {
        /// The number asked for.
        wanted: usize,
        /// The number that this process computes with.
        running: usize,
    },
}

impl DeviceError {
    /// Says why, where the text does not.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::NotBuilt { .. } => Some("the CPU is the only device of this version".to_owned()),
            Self::Unknown { .. } => Some("the devices of this build are `cpu` and `auto`".to_owned()),
            Self::TooManyThreads { most, .. } => Some(format!("at most {most} are of use")),
            Self::Threads { .. } => None,
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn next(&self) -> String {
        match self {
            Self::NotBuilt { .. } => "compute on the CPU with `--device cpu`".to_owned(),
            Self::Unknown { .. } => "name one of these with `--device`, or leave it out".to_owned(),
            Self::TooManyThreads { most, .. } => format!("ask for at most {most} with `--threads`"),
            Self::Threads { .. } => "set the number once, at the start of the process".to_owned(),
        }
    }
}

/// Sets the number of threads that compute, for everything that this process does from now on.
///
/// # Errors
///
/// [`TrainError::Device`](crate::TrainError::Device) for more than four a core, and when another number computes already.
pub fn use_threads(wanted: Option<usize>) -> Result<(), crate::TrainError> {
    threads(wanted)?;
    Ok(())
}

/// Sets the number of threads that compute, once in a process, and returns the number in use.
///
/// # Errors
///
/// [`DeviceError::TooManyThreads`] above four a core, and [`DeviceError::Threads`] when another number computes already.
pub(crate) fn threads(wanted: Option<usize>) -> Result<usize, DeviceError> {
    if let Some(wanted) = wanted {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let most = cores.saturating_mul(4).max(1024);
        if wanted > most {
            return Err(DeviceError::TooManyThreads { wanted, most });
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(wanted);
        let running = pool.build_global().map_or_else(|_| rayon::current_num_threads(), |()| wanted);
        if running != wanted {
            return Err(DeviceError::Threads { wanted, running });
        }
    }
    Ok(rayon::current_num_threads())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_absent_device_is_an_error_that_names_the_one_that_there_is() {
        assert_eq!(Compute::choose("cpu").unwrap().name(), "cpu");
        assert_eq!(Compute::choose("auto").unwrap().name(), "cpu");
        let error = Compute::choose("cuda:1").unwrap_err();
        assert_eq!(error.to_string(), "this version has no backend for the device `cuda:1`");
        assert!(error.next().contains("`--device cpu`"));
        assert!(matches!(Compute::choose("vulkan").unwrap_err(), DeviceError::NotBuilt { .. }));
        assert!(matches!(Compute::choose("gpu").unwrap_err(), DeviceError::Unknown { .. }));
        assert!(matches!(Compute::choose("cpu:1").unwrap_err(), DeviceError::Unknown { .. }));
    }
}
