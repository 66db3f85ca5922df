//! Static API keys in `Authorization: Bearer`: only their SHA-256 digests are known here.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

use crate::call::{Principal, Proof};
use crate::config::snapshot::ApiKey;

/// The keys of a configuration.
///
/// *Invariants.* Every key is compared, whichever fits, so time tells nothing about them. A key has
/// 256 random bits, so its plain digest cannot be searched.
pub struct ApiKeys(Vec<([u8; 32], Arc<Principal>)>);

impl ApiKeys {
    /// Keys from the configuration.
    #[must_use]
    pub fn new(keys: &[ApiKey]) -> Self {
        let principal = |key: &ApiKey| Arc::new(Principal::new(&key.name, Proof::ApiKey));
        Self(keys.iter().map(|key| (key.sha256.0, principal(key))).collect())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key an `Authorization` header shows.
    #[must_use]
    pub fn find(&self, header: &[u8]) -> Option<Arc<Principal>> {
        let (scheme, token) = header.split_at_checked(7)?;
        let token = token.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer ") || token.is_empty() {
            return None;
        }
        let shown = digest(&SHA256, token);
        let mut found = None;
        for (known, principal) in &self.0 {
            if verify_slices_are_equal(known, shown.as_ref()).is_ok() {
                found = Some(principal.clone());
            }
        }
        found
    }
}
