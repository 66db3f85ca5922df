//! Giving memory back that was freed. An allocator keeps it for a while, and looks again only while it is used; a gateway
//! whose clients have all fallen silent would keep what their requests took.

use std::sync::OnceLock;
use std::time::Duration;

/// How often to look: seconds after a burst its memory is the system's again.
pub const INTERVAL: Duration = Duration::from_secs(1);

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Says how the program's allocator gives memory back. The first call counts.
pub fn allocator(give_back: fn()) {
    // There is one allocator in a program.
    let _ = GIVE_BACK.set(give_back);
}

/// Gives back what is not used; does nothing where the allocator is the system's.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}
