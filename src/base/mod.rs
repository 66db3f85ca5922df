//! Things with no opinion about MCP: clock, ids, seals, units, caps, delays, descriptors, tasks, ticks.

pub mod backoff;
pub mod caps;
pub mod clock;
pub mod descriptors;
pub mod ids;
pub mod memory;
pub mod seal;
pub mod tasks;
pub mod ticks;
pub mod units;
