//! `portcullis.auth`: who may call.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::config::decode::{Field, Refusal, Table, Wrong};

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

impl Auth {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let keys = table.read("keys", |field| field.list(ApiKey::decode));
        Self {
            allow_anonymous: table.read("allowAnonymous", |field| field.flag()).unwrap_or_default(),
            keys: keys.unwrap_or_default(),
        }
    }
}

impl ApiKey {
    fn decode(field: &mut Field<'_, '_>) -> Result<Self, Refusal> {
        let both = field.table(|table| {
            let name = table.read("name", |field| field.text());
            let sha256 = table.read("sha256", Digest::decode);
            for key in ["name", "sha256"] {
                if !table.has(key) {
                    let wrong = Wrong::new(format!("`{key}` is missing"));
                    table.note(wrong.mend("`portcullis keys new NAME` prints a whole entry"));
                }
            }
            name.zip(sha256)
        })?;
        let (name, sha256) = both.ok_or(Refusal::Noted)?;
        let name = name.reveal().into();
        Ok(Self { name, sha256 })
    }
}

impl Digest {
    fn decode(field: &mut Field<'_, '_>) -> Result<Self, Refusal> {
        let text = field.text()?;
        let digits = text.reveal();
        let mut digest = [0; 32];
        let read = digits.len() == 64
            && digits.is_ascii()
            && digest.iter_mut().enumerate().all(|(index, byte)| {
                u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map(|value| *byte = value).is_ok()
            });
        if read {
            return Ok(Self(digest));
        }
        // What stands here by mistake may be the key itself, so it is not shown.
        let wrong = Wrong::new("this is not a SHA-256 digest");
        Err(wrong.mend("allowed: 64 hexadecimal digits; `portcullis keys new NAME` prints them").into())
    }
}
