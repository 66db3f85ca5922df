//! The bridge: choosing, fanning out, merging, and translating names, URIs and ids.
