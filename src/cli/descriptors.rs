//! How many files and sockets the process may have open (F-086).

/// Raises the soft limit to the hard one: a gateway has several descriptors for each client, and the usual
/// soft limit is made for programs with a few.
pub fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let now = getrlimit(Resource::Nofile);
        if now.current != now.maximum {
            // Refused, we go on with what there is; the metrics show both.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    /// F-086
    #[test]
    fn f_086_the_soft_limit_is_raised() {
        super::raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
