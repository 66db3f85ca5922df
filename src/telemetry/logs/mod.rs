//! Log lines: collected from events, made harmless, thinned out, and written without ever waiting.
//!
//! *Invariants*: one event is one line, and in JSON one object a line, whatever peers send (F-104);
//! a reader of standard error that stopped costs lines, never time (F-025).
//!
//! *Limits*: fields are cut at 1 KiB; in 10 s 30 lines alike, 3 of them identical in a row, and 200 of one
//! child; 512 KiB waiting to be written.

mod layer;
mod line;
mod log;
mod redact;
mod repeats;
mod writer;

pub use self::line::Colour;
pub use self::log::Log;
pub use self::redact::Redactor;
pub(super) use self::repeats::{CHILD, UNLIMITED};
