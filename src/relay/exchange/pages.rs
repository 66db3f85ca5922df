//! Pages that users were sent to: the ids by which one session and its upstreams know them (ELIC-11).
//!
//! An id is unique for its upstream only, so clients that see several are given one of ours. A page is remembered until it
//! is done with, or for an hour; its session's end forgets all of them.
//!
//! *Limits.* 128 pages a session, the oldest go first; an upstream's id has at most 1 KiB.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::base::ids::RandomId;
use crate::call::UpstreamId;

/// How long a page is remembered: as long as people may take.
const KEPT: Duration = Duration::from_hours(1);

/// Pages of a session: far beyond what anyone opens in an hour.
const MOST: usize = 128;

/// Bytes of an upstream's id: real ones are UUIDs.
const LONGEST: usize = 1024;

/// Which ids a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// The upstream's own: the client sees no other upstream whose ids could be the same.
    Kept,
    /// Ones of ours.
    Ours,
}

/// The pages of one session, oldest first.
#[derive(Debug, Default)]
pub struct Pages(VecDeque<Page>);

#[derive(Debug)]
struct Page {
    upstream: UpstreamId,
    original: Box<str>,
    /// What the client knows it by.
    shown: Box<str>,
    until: Instant,
}

impl Pages {
    /// The id that the client gets for an upstream's; the same one for as long as the page is remembered. None when the
    /// upstream's is empty or too long.
    #[must_use]
    pub fn expose(
        &mut self,
        upstream: UpstreamId,
        original: &str,
        ids: Ids,
        now: Instant,
    ) -> Option<Box<str>> {
        if original.is_empty() || original.len() > LONGEST {
            return None;
        }
        let fresh = || match ids {
            Ids::Kept => original.into(),
            Ids::Ours => RandomId::random().text().into_boxed_str(),
        };
        let shown = self.take(upstream, original, now).unwrap_or_else(fresh);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let page = Page { upstream, original: original.into(), shown: shown.clone(), until: now + KEPT };
        self.0.push_back(page);
        Some(shown)
    }

    /// The id that the client got, of a page that is done with; none when this session was not sent there (ELIC-09).
    #[must_use]
    pub fn complete(&mut self, upstream: UpstreamId, original: &str, now: Instant) -> Option<Box<str>> {
        self.take(upstream, original, now)
    }

    fn take(&mut self, upstream: UpstreamId, original: &str, now: Instant) -> Option<Box<str>> {
        // All are remembered equally long, so the oldest end first.
        while self.0.front().is_some_and(|page| page.until <= now) {
            self.0.pop_front();
        }
        let at = self.0.iter().position(|page| page.upstream == upstream && *page.original == *original)?;
        self.0.remove(at).map(|page| page.shown)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::base::clock;

    /// ELIC-11: until it is done with, or for an hour.
    #[test]
    fn elic_11_a_page_is_remembered_for_an_hour_at_most() {
        let (alpha, now) = (UpstreamId(0), clock::now());
        let mut pages = Pages::default();
        let ours = pages.expose(alpha, "1", Ids::Ours, now).unwrap();
        assert_eq!(
            pages.expose(alpha, "1", Ids::Ours, now + KEPT / 2).as_ref(),
            Some(&ours),
            "it is the same page"
        );
        assert_eq!(pages.complete(alpha, "1", now + KEPT), Some(ours));
        assert_eq!(pages.complete(alpha, "1", now + KEPT), None, "it is done with");
        let again = pages.expose(alpha, "1", Ids::Ours, now).unwrap();
        assert_eq!(pages.complete(alpha, "1", now + KEPT), None);
        assert_ne!(pages.expose(alpha, "1", Ids::Ours, now + KEPT), Some(again));
    }

    /// ELIC-11: an only upstream's ids are unique already, and its tools may name them in their results.
    #[test]
    fn elic_11_an_only_upstream_keeps_its_ids() {
        let (alpha, now) = (UpstreamId(0), clock::now());
        let mut pages = Pages::default();
        assert_eq!(pages.expose(alpha, "e-1", Ids::Kept, now).as_deref(), Some("e-1"));
        assert_eq!(pages.complete(alpha, "e-1", now).as_deref(), Some("e-1"));
        assert_eq!(pages.complete(alpha, "e-1", now), None);
    }

    /// ELIC-11, D11
    #[test]
    fn elic_11_pages_are_bounded() {
        let (alpha, now) = (UpstreamId(0), clock::now());
        let mut pages = Pages::default();
        for n in 0..2 * MOST {
            assert!(pages.expose(alpha, &n.to_string(), Ids::Ours, now).is_some());
        }
        assert_eq!(pages.0.len(), MOST);
        assert!(pages.complete(alpha, "0", now).is_none());
        assert!(pages.complete(alpha, &(2 * MOST - 1).to_string(), now).is_some());
        assert!(pages.expose(alpha, "", Ids::Ours, now).is_none());
        assert!(pages.expose(alpha, &"x".repeat(LONGEST + 1), Ids::Ours, now).is_none());
    }

    proptest! {
        /// ELIC-09, ELIC-11, ELIC-21: ids of ours are never shared, and lead back to exactly their session, upstream and
        /// original, whatever the order.
        #[test]
        fn elic_11_ids_map_back_to_exactly_their_owner(
            steps in proptest::collection::vec((0_usize..3, 0_u16..3, "[ab]{1,2}", any::<bool>()), 0..80),
        ) {
            let now = clock::now();
            let mut sessions: [Pages; 3] = Default::default();
            let mut open: HashMap<(usize, u16, String), Box<str>> = HashMap::new();
            for (session, upstream, original, completes) in steps {
                let key = (session, upstream, original.clone());
                let (pages, upstream) = (&mut sessions[session], UpstreamId(upstream));
                if completes {
                    prop_assert_eq!(pages.complete(upstream, &original, now), open.remove(&key));
                } else {
                    let ours = pages.expose(upstream, &original, Ids::Ours, now).unwrap();
                    prop_assert!(open.iter().all(|(other, theirs)| (*other == key) == (*theirs == ours)));
                    open.insert(key, ours);
                }
            }
        }
    }
}
