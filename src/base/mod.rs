//! Things with no opinion about MCP: clock, ids, seals, units, caps, delays, tasks.

pub mod units;
