//! Bytes on the wire into frames and back: Server-Sent Events and newline-delimited lines, incremental and bounded.
