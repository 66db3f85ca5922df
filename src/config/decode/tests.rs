//! What is said of values that are wrong.
