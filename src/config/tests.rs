//! The whole way from a text to a snapshot.
