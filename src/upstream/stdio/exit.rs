//! How a child ended, and why: what its pending calls and the operator are told (F-026).

use std::fmt;
use std::time::Duration;

use rustix::process::Signal;

/// What the system says about the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The system did not say.
    Unknown,
    /// It could not be ended; the kernel holds it, most likely in a read from a device or a network folder.
    Stuck,
}

/// Who or what brought the end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The child ended by itself.
    Itself,
    /// It was asked to stop.
    Stopped,
    /// Its holder let go of it.
    Dropped,
    /// It closed its input, or a write to it was cut; a half-written line cannot be mended (F-031).
    InputClosed,
    /// It closed its output and lived on.
    OutputClosed,
}

/// The end of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// What the system says.
    pub ending: Ending,
    /// Who brought it about.
    pub cause: Cause,
    /// How long the child lived.
    pub uptime: Duration,
    /// The last lines of its stderr, oldest first, cut and without control characters. For operators, not for clients.
    pub stderr: Vec<String>,
}

impl Exit {
    /// Killed by signal 9, and not by us: most likely the machine ran out of memory (F-085).
    #[must_use]
    pub fn is_likely_out_of_memory(&self) -> bool {
        self.cause == Cause::Itself && self.ending == Ending::Signal(Signal::KILL.as_raw())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Itself => {}
            Cause::Stopped => out.write_str("stopped: ")?,
            Cause::Dropped => out.write_str("ended with its connection: ")?,
            Cause::InputClosed => out.write_str("closed its input: ")?,
            Cause::OutputClosed => out.write_str("closed its output: ")?,
        }
        self.ending.fmt(out)?;
        if self.is_likely_out_of_memory() {
            out.write_str(" (most likely out of memory)")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exit code {code}"),
            Self::Signal(signal) => write!(out, "signal {signal}"),
            Self::Unknown => out.write_str("exit code unknown"),
            Self::Stuck => out.write_str("cannot be ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(ending: Ending, cause: Cause) -> Exit {
        Exit { ending, cause, uptime: Duration::ZERO, stderr: vec!["a secret".into()] }
    }

    /// F-026, F-085
    #[test]
    fn f_085_signal_nine_hints_at_memory_unless_we_sent_it() {
        let table = [
            (exit(Ending::Code(3), Cause::Itself), "exit code 3"),
            (exit(Ending::Signal(9), Cause::Itself), "signal 9 (most likely out of memory)"),
            (exit(Ending::Signal(9), Cause::Stopped), "stopped: signal 9"),
            (exit(Ending::Signal(15), Cause::InputClosed), "closed its input: signal 15"),
        ];
        for (exit, said) in table {
            assert_eq!(exit.to_string(), said);
        }
    }
}
