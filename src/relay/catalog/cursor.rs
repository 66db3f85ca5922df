//! Cursors over merged lists: sealed, so that nobody can guess or bend one (PAGE-02, PAGE-05, F-051).

use std::sync::Arc;

use crate::base::seal::{Purpose, Ring};
use crate::call::{Endpoint, Principal};
use crate::mcp::methods::ItemKind;

const PURPOSE: Purpose = Purpose("cursor");

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The view that it pages through.
    pub epoch: u64,
    /// The first item of the page.
    pub offset: u64,
}

/// Makes and reads cursors.
#[derive(Clone)]
pub struct Cursors(Arc<Ring>);

impl Cursors {
    /// By these keys.
    #[must_use]
    pub fn new(ring: Arc<Ring>) -> Self {
        Self(ring)
    }

    /// The text for this caller, list and endpoint.
    #[must_use]
    pub fn seal(&self, cursor: Cursor, kind: ItemKind, who: &Principal, endpoint: Endpoint) -> String {
        let mut plain = [0; 16];
        plain[..8].copy_from_slice(&cursor.epoch.to_be_bytes());
        plain[8..].copy_from_slice(&cursor.offset.to_be_bytes());
        self.0.seal(PURPOSE, &who.tenant, &bound(kind, who, &place(endpoint)), &plain)
    }

    /// The cursor, if it was made for this caller, list and endpoint (PAGE-03).
    #[must_use]
    pub fn open(&self, text: &str, kind: ItemKind, who: &Principal, endpoint: Endpoint) -> Option<Cursor> {
        let plain = self.0.open(PURPOSE, &who.tenant, &bound(kind, who, &place(endpoint)), text)?;
        let (epoch, offset) = plain.split_first_chunk::<8>()?;
        let epoch = u64::from_be_bytes(*epoch);
        Some(Cursor { epoch, offset: u64::from_be_bytes(offset.try_into().ok()?) })
    }
}

fn place(endpoint: Endpoint) -> [u8; 3] {
    match endpoint {
        Endpoint::Merged => [0, 0, 0],
        Endpoint::Upstream(id) => [1, id.0.to_be_bytes()[0], id.0.to_be_bytes()[1]],
    }
}

fn bound<'a>(kind: ItemKind, who: &'a Principal, place: &'a [u8; 3]) -> [&'a [u8]; 3] {
    [kind.member().as_bytes(), who.name.as_bytes(), place]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::call::{Proof, UpstreamId};

    proptest! {
        /// PAGE-03, SEC-22: a cursor opens for whom, where and for what it was made, and nowhere else.
        #[test]
        fn a_cursor_opens_only_in_its_place(epoch: u64, offset: u64, junk in ".{0,80}") {
            let cursors = Cursors::new(Arc::new(Ring::random()));
            let (a, b) = (Principal::new("a", Proof::ApiKey), Principal::new("b", Proof::ApiKey));
            let cursor = Cursor { epoch, offset };
            let text = cursors.seal(cursor, ItemKind::Tool, &a, Endpoint::Merged);
            prop_assert_eq!(cursors.open(&text, ItemKind::Tool, &a, Endpoint::Merged), Some(cursor));
            prop_assert_eq!(cursors.open(&text, ItemKind::Prompt, &a, Endpoint::Merged), None);
            prop_assert_eq!(cursors.open(&text, ItemKind::Tool, &b, Endpoint::Merged), None);
            prop_assert_eq!(cursors.open(&text, ItemKind::Tool, &a, Endpoint::Upstream(UpstreamId(0))), None);
            prop_assert_eq!(cursors.open(&junk, ItemKind::Tool, &a, Endpoint::Merged), None);
        }
    }
}
