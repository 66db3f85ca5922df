//! What the upstreams offer: read in the background, merged per endpoint, answered from memory (D8).
//!
//! Each upstream has a [`member`] with a task that reads its lists when something says that they
//! changed; a change is merged into the [`view`]s of the endpoints that show it, and clients are told
//! only if what they see has changed.

pub mod board;
pub mod cursor;
pub mod instructions;
pub mod item;
pub mod member;
pub mod own;
pub mod read;
pub mod refresh;
pub mod render;
pub mod snapshot;
pub mod store;
pub mod view;
