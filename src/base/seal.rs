//! Sealed handles: what a client hands back to us later, unreadable and unforgeable in between (D5).
//!
//! AES-256-GCM-SIV under a key that HKDF-SHA256 derives from a ring key for each purpose and tenant. A ring has a current
//! key, which seals, and older ones, which still open. The sealed form is base64url text:
//!
//! ```text
//! form (1 byte) · key id (4) · nonce (12) · encrypted text · tag (16)
//! ```
//!
//! *Invariants:* purpose, tenant and associated data must be the same for sealing and opening. Why something does not open
//! is not told: malformed, unknown, foreign and altered ones take the same path and give the same answer (R-07). A handle
//! has one text: no second spelling opens. No key is ever printed.
//!
//! *Limits:* text longer than [`caps::SEALED_TEXT_BYTES`] does not open. [`caps::DERIVED_KEYS`] derived keys are remembered
//! per ring key, as long as the ring lives; others are derived each time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{caps, ids};

const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES;

/// Version of the sealed form, so that another can follow.
const FORM: u8 = 1;

/// Separates our derivations from any other use of the same key.
const SALT: &[u8] = b"portcullis seal 1";

/// What a sealed thing is for; a session id does not open as a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Purpose(pub &'static str);

/// A master key of 256 bits.
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    /// A new random key.
    #[must_use]
    pub fn random() -> Self {
        Self(Zeroizing::new(ids::random_bytes()))
    }

    /// Reads the form that [`Key::reveal`] writes; `None` for anything but exactly 256 bits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        Some(Self(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    /// The key as 43 characters of base64url, to be kept where only we can read it (R-05).
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(self.0.as_slice()))
    }
}

impl From<[u8; KEY_BYTES]> for Key {
    fn from(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The keys that seal and open, current one first.
pub struct Ring {
    current: Slot,
    older: Vec<Slot>,
}

/// A master key, ready for derivation, and what was derived: deriving costs as much as the seal itself, and a session id
/// is opened for every request.
struct Slot {
    id: [u8; KEY_ID_BYTES],
    prk: Prk,
    derived: RwLock<HashMap<Purpose, KeysByTenant>>,
}

type KeysByTenant = HashMap<Box<str>, Arc<RandomizedNonceKey>>;

impl Ring {
    /// `current` seals and opens, `older` only open.
    #[must_use]
    pub fn from_keys(current: Key, older: impl IntoIterator<Item = Key>) -> Self {
        Self { current: Slot::new(&current), older: older.into_iter().map(|key| Slot::new(&key)).collect() }
    }

    /// One random key: nothing sealed outlives this ring (R-05).
    #[must_use]
    pub fn random() -> Self {
        Self::from_keys(Key::random(), [])
    }

    /// Seals `plain` into text. `aad` are the things it is bound to, such as principal and endpoint; they are not in the
    /// text, and opening needs the same ones in the same order.
    #[must_use]
    pub fn seal(&self, purpose: Purpose, tenant: &str, aad: &[&[u8]], plain: &[u8]) -> String {
        let mut body = Vec::with_capacity(plain.len() + TAG_BYTES);
        body.extend_from_slice(plain);
        let nonce = self
            .current
            .key(purpose, tenant)
            .seal_in_place_append_tag(Aad::from(bound_to(&self.current.id, aad)), &mut body)
            .expect("sealing fails only beyond 64 GiB");
        let mut sealed = Vec::with_capacity(HEAD_BYTES + body.len());
        sealed.push(FORM);
        sealed.extend_from_slice(&self.current.id);
        sealed.extend_from_slice(nonce.as_ref());
        sealed.extend_from_slice(&body);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Opens what [`Ring::seal`] gave for the same purpose, tenant and associated data; `None` for everything else.
    #[must_use]
    pub fn open(&self, purpose: Purpose, tenant: &str, aad: &[&[u8]], text: &str) -> Option<Vec<u8>> {
        // What has no proper form is opened all the same, as a blank that cannot open.
        let mut sealed = Some(text)
            .filter(|text| text.len() <= caps::SEALED_TEXT_BYTES)
            .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
            .filter(|sealed| sealed.len() >= HEAD_BYTES + TAG_BYTES && sealed[0] == FORM)
            .unwrap_or_else(|| vec![0; HEAD_BYTES + TAG_BYTES]);
        let (head, body) = sealed.split_at_mut(HEAD_BYTES);
        let (id, nonce) = head[1..].split_at(KEY_ID_BYTES);
        // With an unknown key id the current key is tried and fails, since the id is part of what is authenticated.
        let slot = self.older.iter().find(|slot| slot.id == id).unwrap_or(&self.current);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain =
            slot.key(purpose, tenant).open_in_place(nonce, Aad::from(bound_to(id, aad)), body).ok()?;
        Some(plain.to_vec())
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} keys)", 1 + self.older.len())
    }
}

impl Slot {
    fn new(key: &Key) -> Self {
        let prk = Salt::new(HKDF_SHA256, SALT).extract(key.0.as_slice());
        let mut id = [0; KEY_ID_BYTES];
        expand(&prk, &[b"key id"], &mut id);
        Self { id, prk, derived: RwLock::default() }
    }

    fn key(&self, purpose: Purpose, tenant: &str) -> Arc<RandomizedNonceKey> {
        // What is in the map is whole at any time, so a lost holder of the lock does no harm.
        let derived = self.derived.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = derived.get(&purpose).and_then(|keys| keys.get(tenant)) {
            return Arc::clone(key);
        }
        drop(derived);
        let key = Arc::new(self.derive(purpose, tenant));
        let mut derived = self.derived.write().unwrap_or_else(PoisonError::into_inner);
        if derived.values().map(HashMap::len).sum::<usize>() < caps::DERIVED_KEYS {
            derived.entry(purpose).or_default().insert(tenant.into(), Arc::clone(&key));
        }
        key
    }

    fn derive(&self, purpose: Purpose, tenant: &str) -> RandomizedNonceKey {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let purpose = bound(&[purpose.0.as_bytes()]);
        expand(&self.prk, &[b"seal", &purpose, tenant.as_bytes()], bytes.as_mut_slice());
        RandomizedNonceKey::new(&AES_256_GCM_SIV, bytes.as_slice()).expect("the key has 256 bits")
    }
}

/// Output length of a derivation.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(prk: &Prk, info: &[&[u8]], out: &mut [u8]) {
    prk.expand(info, Length(out.len()))
        .and_then(|derived| derived.fill(out))
        .expect("HKDF gives up to 255 blocks, and one is asked for");
}

/// What is authenticated with a seal: the key's id, so that it has no second spelling, and the caller's parts.
fn bound_to(id: &[u8], aad: &[&[u8]]) -> Vec<u8> {
    let mut out = id.to_vec();
    out.append(&mut bound(aad));
    out
}

/// Joins parts so that no two lists of parts give the same bytes.
fn bound(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

#[cfg(test)]
mod tests;
