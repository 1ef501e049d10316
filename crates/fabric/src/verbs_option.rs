//! Whether verbs are used, and by which device: how that is said, in options and flags. Part of
//! every build, so that one without the transport understands the flag and says what it lacks.

use crate::VerbsError;
use std::fmt;
use std::str::FromStr;

/// Whether a node offers verbs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VerbsOption {
    /// It does not.
    #[default]
    Off,
    /// By the device that has the stream's own address among its GIDs.
    Auto,
    /// By this device.
    By(DeviceChoice),
}

/// A device that was named, with a port and a GID if those are not to be found by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChoice {
    /// The device's name, as in `rdma link`.
    pub device: String,
    /// The port, from 1.
    pub port: Option<u8>,
    /// The index of the GID.
    pub gid_index: Option<u8>,
}

impl FromStr for DeviceChoice {
    type Err = VerbsError;

    fn from_str(asked: &str) -> Result<Self, VerbsError> {
        let wrong = || VerbsError::Syntax { asked: asked.to_string() };
        let mut parts = asked.split(':');
        let device = parts.next().filter(|device| !device.is_empty()).ok_or_else(wrong)?.to_string();
        let mut number = || parts.next().map(str::parse).transpose().map_err(|_| wrong());
        let (port, gid_index) = (number()?, number()?);
        if parts.next().is_some() || port == Some(0) {
            return Err(wrong());
        }
        Ok(Self { device, port, gid_index })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        match (self.port, self.gid_index) {
            (None, None) => Ok(()),
            (port, None) => write!(f, ":{}", port.unwrap_or(1)),
            (port, Some(index)) => write!(f, ":{}:{index}", port.unwrap_or(1)),
        }
    }
}

impl FromStr for VerbsOption {
    type Err = VerbsError;

    fn from_str(asked: &str) -> Result<Self, VerbsError> {
        match asked {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            device => device.parse().map(Self::By),
        }
    }
}

impl fmt::Display for VerbsOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::By(device) => device.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for written in ["off", "auto", "rxe0", "mlx5_0:1", "mlx5_0:2:3"] {
            assert_eq!(written.parse::<VerbsOption>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn nonsense_is_no_device() {
        for written in ["", ":1", "rxe0:", "rxe0:0", "rxe0:1:", "rxe0:1:2:3", "rxe0:one", "rxe0:300"] {
            let error = written.parse::<VerbsOption>().unwrap_err();
            assert!(matches!(error, VerbsError::Syntax { .. }), "{written}: {error}");
        }
    }
}
