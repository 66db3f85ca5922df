//! JSON-RPC messages as text with known positions: scanned once, spliced, never rebuilt.
