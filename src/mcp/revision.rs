//! Protocol revisions: their names, their order, and what each has.

use std::fmt;

/// A revision of MCP that opens with `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// `2024-11-05`
    V2024_11_05,
    /// `2025-03-26`
    V2025_03_26,
    /// `2025-06-18`
    V2025_06_18,
    /// `2025-11-25`
    V2025_11_25,
}

impl Revision {
    /// The newest one that opens with `initialize`.
    pub const LATEST: Self = Self::V2025_11_25;

    /// All, oldest first.
    pub const ALL: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The revision with this name, compared whole (LIFE-03).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// What a server answers to a client that asks for `name` (LIFE-03, ERA-03).
    #[must_use]
    pub fn negotiate(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self::LATEST)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// Whether messages may come as an array (RPC-15).
    #[must_use]
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether a stream opens with an event of an id and empty data (HTTP-13).
    #[must_use]
    pub fn has_priming(self) -> bool {
        self >= Self::V2025_11_25
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIFE-03, ERA-03
    #[test]
    fn negotiation_is_by_membership() {
        for revision in Revision::ALL {
            assert_eq!(Revision::negotiate(revision.name()), revision);
        }
        for other in ["2026-07-28", "2025-11-26", "", "zzz", "1.0"] {
            assert_eq!(Revision::negotiate(other), Revision::LATEST);
        }
    }
}
