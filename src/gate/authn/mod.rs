//! Credentials into principals. Each way has a file; [`build`] picks those that are configured.

pub mod api_key;

use std::sync::Arc;

use crate::call::{Authenticator, Credentials, Denied, Principal};
use crate::config::snapshot::Snapshot;
use crate::gate::authn::api_key::ApiKeys;
use crate::telemetry::events::gate::Authenticated;
use crate::telemetry::words::AuthOutcome;

/// The authentication of a configuration.
#[must_use]
pub fn build(config: &Snapshot) -> Arc<dyn Authenticator> {
    let anonymous = config.admits_anonymous().then(|| Arc::new(Principal::anonymous()));
    Arc::new(Door { keys: ApiKeys::new(&config.auth.keys), anonymous })
}

/// API keys, and callers without a credential where they are admitted.
struct Door {
    keys: ApiKeys,
    anonymous: Option<Arc<Principal>>,
}

impl Authenticator for Door {
    fn authenticate(&self, shown: Credentials<'_>) -> Result<Arc<Principal>, Denied> {
        let verdict = match (shown.authorization, &self.anonymous) {
            // Without keys there is nothing that a header could prove; some clients send one anyway.
            (_, Some(anonymous)) if self.keys.is_empty() => return Ok(anonymous.clone()),
            (None, Some(anonymous)) => return Ok(anonymous.clone()),
            (None, None) => Err(Denied::Missing),
            (Some(header), _) => self.keys.find(header).ok_or(Denied::Invalid),
        };
        let (outcome, key) = match &verdict {
            Ok(principal) => (AuthOutcome::Accepted, Some(&*principal.name)),
            Err(Denied::Missing) => (AuthOutcome::Missing, None),
            Err(Denied::Invalid) => (AuthOutcome::Rejected, None),
        };
        Authenticated { outcome, key }.emit();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Proof;
    use crate::config::snapshot::{ApiKey, Digest};

    fn door(keys: &[(&str, &str)], anonymous: bool) -> Door {
        let digest = |key: &str| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
            Digest(digest.as_ref().try_into().unwrap())
        };
        let keys: Vec<_> =
            keys.iter().map(|(name, key)| ApiKey { name: Arc::from(*name), sha256: digest(key) }).collect();
        Door { keys: ApiKeys::new(&keys), anonymous: anonymous.then(|| Arc::new(Principal::anonymous())) }
    }

    fn ask(door: &Door, header: Option<&str>) -> Result<(String, Proof), Denied> {
        let shown = Credentials { authorization: header.map(str::as_bytes), peer: None };
        door.authenticate(shown).map(|who| (who.name.to_string(), who.proof))
    }

    /// R-25, AUTHS-05
    #[test]
    fn a_known_key_is_let_in_and_nothing_else() {
        let closed = door(&[("ci", "secret-1"), ("ops", "secret-2")], false);
        assert_eq!(ask(&closed, Some("Bearer secret-2")), Ok(("ops".into(), Proof::ApiKey)));
        assert_eq!(ask(&closed, Some("bearer  secret-1")), Ok(("ci".into(), Proof::ApiKey)));
        assert_eq!(ask(&closed, None), Err(Denied::Missing));
        for wrong in ["Bearer secret-3", "Basic secret-1", "secret-1", "", "Bearer ", "Bearer secret-1 x"] {
            assert_eq!(ask(&closed, Some(wrong)), Err(Denied::Invalid), "{wrong}");
        }
    }

    #[test]
    fn anonymous_callers_are_let_in_where_they_may() {
        let open = door(&[], true);
        assert_eq!(ask(&open, None).unwrap().1, Proof::Anonymous);
        assert_eq!(ask(&open, Some("Bearer whatever")).unwrap().1, Proof::Anonymous);
        let both = door(&[("ci", "k")], true);
        assert_eq!(ask(&both, None).unwrap().1, Proof::Anonymous);
        assert_eq!(ask(&both, Some("Bearer wrong")), Err(Denied::Invalid));
    }
}
