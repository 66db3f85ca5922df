//! Things with no opinion about MCP: clock, ids, seals, units, caps, delays, tasks.

<<<<<<< HEAD
pub mod units;
=======
pub mod backoff;
pub mod caps;
pub mod clock;
pub mod ids;
pub mod seal;
pub mod tasks;
>>>>>>> base
