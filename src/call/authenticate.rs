//! Credentials into principals, as the client shore asks the gate for it.

use std::net::IpAddr;
use std::sync::Arc;

use crate::call::principal::Principal;

/// What a request shows of its caller.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'r> {
    /// The `Authorization` header, if there is exactly one.
    pub authorization: Option<&'r [u8]>,
    /// Where the connection comes from; none for a local process.
    pub peer: Option<IpAddr>,
}

/// Why a caller is not let in. Nothing of the credential is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was shown.
    #[error("authentication is required")]
    Missing,
    /// What was shown is not known.
    #[error("the credential is not valid")]
    Invalid,
}

/// Turns credentials into a principal; asked for every request (SEC-10, AUTHS-07).
pub trait Authenticator: Send + Sync {
    /// Who it is.
    ///
    /// # Errors
    /// `Missing` or `Invalid`, both 401 on HTTP.
    fn authenticate(&self, shown: Credentials<'_>) -> Result<Arc<Principal>, Denied>;
}
