//! The vocabulary of events, and the metrics and logs that they become.
