//! The keys under which a governor's state is stored: fingerprints, in which nothing can be read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::preset::Preset;
use crate::key::StoredKey;
use crate::policy::Policy;

/// As much of a fingerprint is kept: 128 bits.
const FINGERPRINT: usize = 16;

/// The secret of fingerprints where none is given, so that all workers find the same keys.
const NO_SECRET: &[u8] = b"ratelimit outbound";

/// Forms keys.
///
/// All keys of one preset stand on one node of a cluster, since a request takes from several at once. A key of a
/// limiter ends with its hash tag; something follows it here, so the two never meet.
#[derive(Clone)]
pub(super) struct KeyMaker {
    tag: String,
    secret: Box<[u8]>,
}

impl KeyMaker {
    pub(super) fn new(preset: Preset, secret: Option<&[u8]>) -> Self {
        Self { tag: format!("{{outbound:{}}}", preset.name()), secret: secret.unwrap_or(NO_SECRET).into() }
    }

    /// A credential, or another identity, as a fingerprint.
    pub(super) fn identity(&self, kind: &str, identity: &[u8]) -> Box<str> {
        self.fingerprint(&[b"identity", kind.as_bytes(), identity]).into()
    }

    /// The key of a learnt budget.
    pub(super) fn learnt(&self, kind: &str, parts: &[&str]) -> StoredKey {
        self.key(&format!("ob:{kind}:"), parts)
    }

    /// The key of a policy. Policies of one name and algorithm are told apart by their windows and their place.
    pub(super) fn policy(&self, policy: &Policy, parts: &[&str]) -> StoredKey {
        let window = policy.window_us().to_string();
        let named = [parts, &[policy.name(), &window]].concat();
        self.key(&format!("{}:", policy.tag()), &named)
    }

    fn key(&self, head: &str, parts: &[&str]) -> StoredKey {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let mut key = StoredKey::from_slice(head.as_bytes());
        key.extend_from_slice(self.tag.as_bytes());
        key.extend_from_slice(self.fingerprint(&parts).as_bytes());
        key
    }

    fn fingerprint(&self, parts: &[&[u8]]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes a secret of any length");
        for part in parts {
            // The length in front keeps apart what would join to the same bytes.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..FINGERPRINT])
    }
}

impl std::fmt::Debug for KeyMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMaker").field("tag", &self.tag).finish_non_exhaustive()
    }
}
