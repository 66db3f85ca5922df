//! Things with no opinion about MCP: clock, ids, seals, units, caps, delays, tasks.

pub mod backoff;
pub mod caps;
pub mod clock;
pub mod ids;
pub mod seal;
pub mod tasks;
pub mod units;
