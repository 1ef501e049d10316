//! What a guest is given to do, and how that ended.

use std::fmt;

use barn_layout::planted;

/// The server's half of a job, and the port by which one can tell that it is there.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) command: String,
    pub(super) port: u16,
}

/// A shell command with a limit, perhaps with a server that it talks to. Both know their addresses
/// and devices by the variables A_IP, A_DEV, A_GID (the server's) and B_IP, B_DEV, B_GID.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Letters, digits and hyphens: it names files in the guest.
    pub(super) name: String,
    pub(super) server: Option<Server>,
    pub(super) command: String,
    pub(super) seconds_max: u64,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) milliseconds: u64,
    /// It was stopped because its time was up.
    pub(super) late: bool,
    /// How many processes the guest's kernel killed for want of memory.
    pub(super) killed: u64,
}

/// A job that ran, or was running when the guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) name: String,
    pub(super) output: String,
    pub(super) ended: Option<Ended>,
}

impl Ended {
    pub(super) fn well(&self) -> bool {
        // A job may end with code 0 though one of its processes was killed for want of memory.
        self.code == 0 && !self.late && (self.killed == 0 || planted("verbs_overlooks_killed_processes"))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.milliseconds as f64 / 1000.0;
        if self.killed > 0 {
            return write!(
                f,
                "the guest ran out of memory and killed {} processes, after {seconds:.1} s; give it more",
                self.killed
            );
        }
        match self.code {
            _ if self.late => write!(f, "was stopped: its {seconds:.0} s were up"),
            0 => write!(f, "ended well after {seconds:.1} s"),
            127 => write!(f, "ended with code 127: a program is not in the guest; give it with --with"),
            // The shell's way to tell of a signal.
            code @ 129..=192 => write!(f, "was killed by signal {} after {seconds:.1} s", code - 128),
            code => write!(f, "ended with code {code} after {seconds:.1} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_own_words() {
        let end = |code, late, killed| Ended { code, milliseconds: 2500, late, killed };
        assert!(end(0, false, 0).well() && !end(0, true, 0).well() && !end(0, false, 1).well());
        assert_eq!(end(0, false, 0).to_string(), "ended well after 2.5 s");
        assert_eq!(end(3, false, 0).to_string(), "ended with code 3 after 2.5 s");
        assert_eq!(end(139, false, 0).to_string(), "was killed by signal 11 after 2.5 s");
        assert!(end(143, true, 0).to_string().starts_with("was stopped"));
        assert!(end(137, false, 2).to_string().contains("out of memory"));
    }
}
