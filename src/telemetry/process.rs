//! What the system says about our own process, read when the metrics page is asked for.
//!
//! *Limits*: Linux only; elsewhere these series are missing.

use std::fs;

use super::metrics;

/// Ticks a second in `/proc/self/stat`: fixed for programs, whatever the kernel's own rate is.
const TICKS: f64 = 100.0;

/// Reads and sets the process metrics; what cannot be read keeps its last value.
pub(super) fn measure() {
    if let Some(status) = read("/proc/self/status") {
        if let Some(kib) = field(&status, "VmRSS:") {
            metrics::MEMORY.gauge(&[]).set(kib * 1024.0);
        }
        if let Some(threads) = field(&status, "Threads:") {
            metrics::THREADS.gauge(&[]).set(threads);
        }
    }
    if let Some(seconds) = read("/proc/self/stat").and_then(|stat| cpu_seconds(&stat)) {
        metrics::CPU.gauge(&[]).set(seconds);
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder that we are reading.
        let open = entries.count().saturating_sub(1);
        metrics::OPEN_FILES.gauge(&[]).set(open as f64);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        metrics::MAX_FILES.gauge(&[]).set(most as f64);
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The number after a name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// User and system time from `/proc/self/stat`, whose second field may hold any character.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::registry::tests::local;

    #[test]
    fn odd_process_names_do_not_shift_the_fields() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 0 0 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (x) S 1"), None);
        assert_eq!(cpu_seconds(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_page_has_the_process() {
        let registry = local();
        measure();
        let page = registry.page();
        for name in ["resident_memory_bytes", "open_fds", "max_fds", "threads", "cpu_seconds_total"] {
            assert!(page.contains(&format!("\nportcullis_process_{name} ")), "{name} is missing in {page}");
        }
    }
}
