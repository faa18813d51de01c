//! Whose budget an event is about, without telling who it is.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::key::KeyStyle;

/// Characters of a fingerprint: 96 bits.
const LENGTH: usize = 16;

/// The beginning of a key's hash, the same for each call of one caller: 16 characters of letters, digits, `-` and `_`.
///
/// It is the hash that a limiter with `hash_keys` stores, an HMAC where there is a secret, so that what is in the store
/// can be found by it. Without a secret it is a plain SHA-256: an address can then be found by trying all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; LENGTH]);

impl Fingerprint {
    /// Of a stored key, which has the user's key, or its hash after a `#`, in braces.
    pub(crate) fn of(stored: &[u8], style: &KeyStyle) -> Self {
        let start = stored.iter().position(|byte| *byte == b'{').map_or(0, |brace| brace + 1);
        let end = stored.iter().rposition(|byte| *byte == b'}').unwrap_or(stored.len());
        let key = stored.get(start..end).unwrap_or(stored);
        let first = |hash: &[u8]| hash.get(..LENGTH).and_then(|hash| hash.try_into().ok()).map(Self);
        let hashed = key.strip_prefix(b"#").and_then(first);
        hashed.or_else(|| first(URL_SAFE_NO_PAD.encode(style.digest(key)).as_bytes())).unwrap_or(Self([b'-'; LENGTH]))
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        // Base64 is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(hash_all: bool, secret: Option<&[u8]>) -> KeyStyle {
        KeyStyle { hash_all, secret: secret.map(Into::into) }
    }

    #[test]
    fn a_key_has_the_same_fingerprint_whether_it_is_stored_hashed_or_not() {
        // The first twelve bytes of the SHA-256 of user:42.
        let open = Fingerprint::of(b"tb:default:{user:42}", &style(false, None));
        assert_eq!(open.as_str(), "6j_UO-HlfWLhY9rh");
        let digest = URL_SAFE_NO_PAD.encode(style(true, None).digest(b"user:42"));
        let hashed = Fingerprint::of(format!("tb:default:{{#{digest}}}").as_bytes(), &style(true, None));
        assert_eq!(hashed, open);
        assert!(digest.starts_with(hashed.as_str()));
    }

    #[test]
    fn a_secret_changes_it() {
        let of = |secret| Fingerprint::of(b"tb:default:{192.0.2.10}", &style(false, secret));
        assert_ne!(of(None), of(Some(b"one")));
        assert_ne!(of(Some(b"one")), of(Some(b"two")));
        assert_eq!(of(Some(b"one")), of(Some(b"one")));
    }
}
