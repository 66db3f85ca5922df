//! Units in which the bounds of settings are given.

use std::time::Duration;

/// A millisecond.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
/// A second.
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// A day.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// 1,024 bytes.
pub(super) const KIB: usize = 1 << 10;
/// 1,024 KiB.
pub(super) const MIB: usize = 1 << 20;
