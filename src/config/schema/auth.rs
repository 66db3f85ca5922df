//! `portcullis.auth`: who may call.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Who may call. Without keys, anyone on the same machine may, while the gateway listens on a loopback
/// address only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Auth {
    /// Lets anyone who can reach the listener call without a key, on any address.
    pub allow_anonymous: bool,
    /// Keys that clients send as `Authorization: Bearer KEY`; `portcullis keys new NAME` makes one.
    pub keys: Vec<ApiKey>,
}

/// A key by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ApiKey {
    /// A name for the logs, such as `laptop`.
    #[schemars(with = "String")]
    pub name: Arc<str>,
    /// The SHA-256 of the key, as 64 hexadecimal digits.
    #[schemars(with = "String", regex(pattern = r"^[0-9a-fA-F]{64}$"))]
    pub sha256: Digest,
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
