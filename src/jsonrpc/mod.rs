//! JSON-RPC messages as text with known positions: scanned once, spliced, never rebuilt.
//!
//! What we do not read is never parsed into a tree and never printed again, so big integers, key
//! order, escapes and unknown members survive (D1, RPC-08, RPC-21, RPC-22).

pub mod batch;
pub mod error;
pub mod id;
pub mod message;
pub mod rewrite;
pub mod scan;
pub mod splice;
pub mod text;
pub mod view;

pub use error::ErrorObject;
pub use id::Id;
pub use message::{Kind, Message, MessageError};
pub use splice::Edits;
pub use view::Object;
