//! The `portcullis` program: picks the allocator, hands the arguments on, turns the outcome into an exit code.

fn main() {}
