//! Which sessions of one connection are subscribed to which resources, so that the upstream is asked once for all, and
//! asked again by the next connection (RES-09, LIFE-26).
//!
//! *Limits.* [`caps::SUBSCRIPTIONS`] in all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::caps;
use crate::call::{Session, SessionKey};

/// The subscriptions over one connection, and over those that follow it.
#[derive(Debug, Default)]
pub struct Subscriptions(Mutex<BTreeMap<String, Holders>>);

type Holders = HashMap<SessionKey, Arc<Session>>;

/// What has to be done for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The upstream has to be asked.
    Ask,
    /// Nothing: it is that way already.
    Nothing,
    /// There are too many.
    Full,
}

impl Subscriptions {
    /// What it takes to subscribe a session; if the upstream has to be asked, nothing is noted yet.
    #[must_use]
    pub fn wanted(&self, uri: &str, session: &Arc<Session>) -> Due {
        let mut all = self.lock();
        if let Some(holders) = all.get_mut(uri) {
            holders.insert(session.key, Arc::clone(session));
            return Due::Nothing;
        }
        if all.len() < caps::SUBSCRIPTIONS { Due::Ask } else { Due::Full }
    }

    /// Notes that the upstream has been asked, for this session.
    pub fn add(&self, uri: String, session: &Arc<Session>) {
        self.lock().entry(uri).or_default().insert(session.key, Arc::clone(session));
    }

    /// Takes a session off a resource.
    #[must_use]
    pub fn remove(&self, uri: &str, session: &Session) -> Due {
        let mut all = self.lock();
        let Some(holders) = all.get_mut(uri) else { return Due::Nothing };
        if holders.remove(&session.key).is_none() || !holders.is_empty() {
            return Due::Nothing;
        }
        all.remove(uri);
        Due::Ask
    }

    /// Takes a session off everything; gives the resources that nobody is subscribed to any more.
    #[must_use]
    pub fn release(&self, session: &Session) -> Vec<String> {
        let mut all = self.lock();
        let mut over = Vec::new();
        all.retain(|uri, holders| {
            let held = holders.remove(&session.key).is_some();
            if held && holders.is_empty() {
                over.push(uri.clone());
            }
            !holders.is_empty()
        });
        over
    }

    /// Whom an update of this resource concerns: who is subscribed to it, or to something that it is a part of.
    #[must_use]
    pub fn of(&self, uri: &str) -> Vec<Arc<Session>> {
        let all = self.lock();
        let mut found = HashMap::new();
        for (subscribed, holders) in all.iter() {
            if covers(subscribed, uri) {
                found.extend(holders.iter().map(|(key, session)| (*key, Arc::clone(session))));
            }
        }
        found.into_values().collect()
    }

    /// All resources, each with who is subscribed to it.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Vec<Arc<Session>>)> {
        let all = self.lock();
        all.iter().map(|(uri, holders)| (uri.clone(), holders.values().cloned().collect())).collect()
    }

    /// Takes over those of a connection that this one follows.
    pub fn take_over(&self, lost: &Self) {
        let theirs = std::mem::take(&mut *lost.lock());
        let mut all = self.lock();
        for (uri, holders) in theirs {
            all.entry(uri).or_default().extend(holders);
        }
    }

    /// One of the sessions that are subscribed to something.
    #[must_use]
    pub fn anyone(&self) -> Option<Arc<Session>> {
        self.lock().values().find_map(|holders| holders.values().next().cloned())
    }

    /// Whether nobody is subscribed to anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Holders>> {
        // A panic while the lock was held cannot have left the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `uri` is what was subscribed to or a part of it, by whole segments of its path (RES-09).
fn covers(subscribed: &str, uri: &str) -> bool {
    match uri.strip_prefix(subscribed) {
        Some("") => true,
        Some(rest) => subscribed.ends_with('/') || rest.starts_with(['/', '?', '#']),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Endpoint, Principal};
    use crate::mcp::revision::Revision;

    fn session(number: u8) -> Arc<Session> {
        let who = Arc::new(Principal::anonymous());
        Arc::new(Session::new(SessionKey([number; 16]), Revision::LATEST, who, Endpoint::Merged))
    }

    /// RES-09, RES-10: asked for with the first, given up with the last, and nothing in between.
    #[test]
    fn res_09_the_upstream_is_asked_once_for_all() {
        let all = Subscriptions::default();
        let (one, two) = (session(1), session(2));
        assert_eq!(all.wanted("x://a", &one), Due::Ask);
        all.add("x://a".into(), &one);
        assert_eq!(all.wanted("x://a", &one), Due::Nothing, "twice is once");
        assert_eq!(all.wanted("x://a", &two), Due::Nothing);
        assert_eq!(all.of("x://a").len(), 2);
        assert_eq!(all.remove("x://a", &one), Due::Nothing);
        assert_eq!(all.remove("x://a", &one), Due::Nothing);
        assert_eq!(all.remove("x://b", &one), Due::Nothing, "what was never there is gone");
        assert_eq!(all.release(&two), ["x://a"]);
        assert!(all.is_empty() && all.anyone().is_none());
    }

    /// LIFE-26
    #[test]
    fn life_26_subscriptions_outlive_their_connection() {
        let (lost, next) = (Subscriptions::default(), Subscriptions::default());
        lost.add("x://a".into(), &session(1));
        lost.add("x://b".into(), &session(1));
        next.add("x://a".into(), &session(2));
        next.take_over(&lost);
        assert!(lost.is_empty());
        assert_eq!((next.of("x://a").len(), next.of("x://b").len()), (2, 1));
    }

    /// RES-09
    #[test]
    fn res_09_an_update_may_name_a_part() {
        let all = Subscriptions::default();
        all.add("x://a/b".into(), &session(1));
        for (uri, heard) in
            [("x://a/b", 1), ("x://a/b/c", 1), ("x://a/bc", 0), ("x://a", 0), ("x://a/b?q", 1)]
        {
            assert_eq!(all.of(uri).len(), heard, "{uri}");
        }
    }

    #[test]
    fn subscriptions_are_bounded() {
        let (all, one) = (Subscriptions::default(), session(1));
        for number in 0..caps::SUBSCRIPTIONS {
            all.add(format!("x://{number}"), &one);
        }
        assert_eq!(all.wanted("x://more", &one), Due::Full);
        assert_eq!(all.wanted("x://0", &one), Due::Nothing);
    }
}
