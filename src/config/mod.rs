//! The configuration file: reading, interpolation, decoding with positions, checking, and the compiled snapshot.
