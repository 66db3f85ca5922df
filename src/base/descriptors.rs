//! How many files and sockets a process may have open (F-086).

#![cfg(unix)]

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit this process was started with, once it was raised.
static AT_START: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard one: a gateway has several descriptors for each client, and the usual
/// soft limit is made for programs with a few.
pub fn raise_limit() {
    let now = *AT_START.get_or_init(|| getrlimit(Resource::Nofile));
    if now.current != now.maximum {
        // Refused, we go on with what there is; the metrics show both.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}

/// The limit to give back to a child, if ours was raised: programs that use `select`, or that walk over all possible
/// descriptors, cannot live with a high one.
#[must_use]
pub fn limit_at_start() -> Option<Rlimit> {
    AT_START.get().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-086
    #[test]
    fn f_086_the_soft_limit_is_raised_and_the_former_one_known() {
        let before = getrlimit(Resource::Nofile);
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        raise_limit();
        assert_eq!(limit_at_start(), Some(before), "raising it twice forgets nothing");
    }
}
