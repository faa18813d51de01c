//! From (algorithm, name, the user's key) to the key a store knows.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;

use crate::policy::Policy;

/// A user's key longer than this is stored as its hash.
const MAX_PLAIN: usize = 200;

/// What stays readable in a policy name. No brace, so that the first one in a stored key opens the hash tag.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-').remove(b':');

/// A key as a store knows it, without the store's prefix: `tb:default:{user:42}`.
///
/// The user's key stands in a hash tag, so that all keys of one decision live on one node of a cluster. No two
/// different triples of algorithm, name and key give the same stored key: the tag has no colon, the name no brace,
/// and a hashed key starts with a `#`, which a plain one never does.
pub(crate) type StoredKey = SmallVec<[u8; SHORT]>;

/// A stored key up to this length needs no memory of its own.
const SHORT: usize = 96;

/// The part of a stored key that comes from the policy.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    head: Box<[u8]>,
}

/// How a user's key is written. It has no `Debug`, so that the secret stays out of logs.
#[derive(Clone, Default)]
pub(crate) struct KeyStyle {
    /// Hash every key, not just those that are no short printable word.
    pub(crate) hash_all: bool,
    /// The secret of the hash. Without one it is a plain SHA-256, which hides nothing that can be guessed.
    pub(crate) secret: Option<Box<[u8]>>,
}

impl KeySpace {
    /// The spaces of a limiter's policies, one each.
    ///
    /// Policies of one algorithm and one name are told apart by their windows, so that "3 per minute and 30 per day"
    /// works without names. Two that do not differ in that either are one budget charged twice: `None`.
    pub(crate) fn of_all(policies: &[Policy]) -> Option<SmallVec<[Self; 1]>> {
        let twins = |policy: &Policy| {
            let same = |other: &&Policy| other.tag() == policy.tag() && other.name() == policy.name();
            policies.iter().filter(same).count() > 1
        };
        let spaces: SmallVec<[Self; 1]> = policies.iter().map(|policy| Self::of(policy, twins(policy))).collect();
        let unlike = |(index, space): (usize, &Self)| spaces[..index].iter().all(|other| other.head != space.head);
        spaces.iter().enumerate().all(unlike).then_some(spaces)
    }

    fn of(policy: &Policy, with_window: bool) -> Self {
        let mut head = format!("{}:{}", policy.tag(), utf8_percent_encode(policy.name(), NAME));
        if with_window {
            // No name has a tilde.
            let _ = write!(head, "~{}", policy.window_us());
        }
        head += ":{";
        Self { head: head.into_bytes().into_boxed_slice() }
    }

    /// The space of what is no policy.
    pub(crate) fn named(tag: &str, name: Option<&str>) -> Self {
        let name = name.map_or_else(String::new, |name| format!(":{}", utf8_percent_encode(name, NAME)));
        Self { head: format!("{tag}{name}:{{").into_bytes().into_boxed_slice() }
    }

    #[inline]
    pub(crate) fn key(&self, style: &KeyStyle, key: &[u8]) -> StoredKey {
        let (head, end) = (self.head.len(), self.head.len() + key.len());
        if end >= SHORT || !style.keeps(key) {
            return self.long_key(style, key);
        }
        let mut buffer = [0; SHORT];
        buffer[..head].copy_from_slice(&self.head);
        buffer[head..end].copy_from_slice(key);
        buffer[end] = b'}';
        StoredKey::from_buf_and_len(buffer, end + 1)
    }

    fn long_key(&self, style: &KeyStyle, key: &[u8]) -> StoredKey {
        let mut stored = StoredKey::with_capacity(self.head.len() + key.len().min(MAX_PLAIN) + 1);
        stored.extend_from_slice(&self.head);
        style.write(&mut stored, key);
        stored.push(b'}');
        stored
    }
}

impl KeyStyle {
    /// Whether both write every key alike.
    pub(crate) fn writes_as(&self, other: &Self) -> bool {
        // Not by the secrets themselves: a zero byte at its end makes a shorter one no other.
        self.hash_all == other.hash_all && self.digest(b"") == other.digest(b"")
    }

    /// Whether a key is stored as it is.
    pub(crate) fn keeps(&self, key: &[u8]) -> bool {
        !self.hash_all && is_plain(key)
    }

    fn write(&self, stored: &mut StoredKey, key: &[u8]) {
        if self.keeps(key) {
            stored.extend_from_slice(key);
        } else {
            stored.push(b'#');
            stored.extend_from_slice(URL_SAFE_NO_PAD.encode(self.digest(key)).as_bytes());
        }
    }

    pub(crate) fn digest(&self, key: &[u8]) -> [u8; 32] {
        match &self.secret {
            None => Sha256::digest(key).into(),
            Some(secret) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a secret of any length");
                mac.update(key);
                mac.finalize().into_bytes().into()
            }
        }
    }
}

/// The key under which the answer to an idempotency token is kept, on the node of the state it belongs to. What gives
/// back is told apart from what takes, so that both may go under one token.
pub(crate) fn token_key(state: &[u8], style: &KeyStyle, token: &[u8], gives_back: bool) -> StoredKey {
    let mut stored = StoredKey::from_slice(if gives_back { b"tr:" } else { b"tk:" });
    stored.extend_from_slice(state);
    stored.push(b':');
    style.write(&mut stored, token);
    stored
}

/// Whether a key can stand in a hash tag as it is: short, printable, and no brace that would end the tag early.
#[inline]
fn is_plain(key: &[u8]) -> bool {
    let (eights, rest) = key.as_chunks();
    // What is left over, with plain bytes behind it.
    let last = rest.iter().fold(PLAIN, |last, byte| last << 8 | u64::from(*byte));
    (1..=MAX_PLAIN).contains(&key.len())
        && key[0] != b'#'
        && are_plain(last)
        && eights.iter().all(|eight| are_plain(u64::from_le_bytes(*eight)))
}

const PLAIN: u64 = u64::from_le_bytes([b'.'; 8]);

/// The same for eight bytes, all at once: the high bit of each byte is set in what is wrong with it.
const fn are_plain(eight: u64) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // Without its own high bit no byte carries into the next.
    let low = eight & !HIGH;
    let printable = (low + (0x80 - b'!' as u64) * EACH) & !(low + EACH);
    let no_opening = (low ^ (b'{' as u64 * EACH)) + (HIGH - EACH);
    let no_closing = (low ^ (b'}' as u64 * EACH)) + (HIGH - EACH);
    !eight & printable & no_opening & no_closing & HIGH == HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, key: &[u8], style: &KeyStyle) -> String {
        let policy = Policy::token_bucket(1, 1.0, 1.0).and_then(|policy| policy.named(name)).expect("a valid policy");
        String::from_utf8(KeySpace::of(&policy, false).key(style, key).to_vec()).expect("stored keys are ASCII")
    }

    #[test]
    fn a_short_printable_key_stays_readable() {
        assert_eq!(stored("default", b"user:42", &KeyStyle::default()), "tb:default:{user:42}");
    }

    #[test]
    fn every_byte_is_looked_at_wherever_it_stands() {
        for length in 1..40 {
            for (at, byte) in (0..length).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
                let mut key = vec![b'k'; length];
                key[at] = byte;
                let plain = byte.is_ascii_graphic() && byte != b'{' && byte != b'}' && !(at == 0 && byte == b'#');
                assert_eq!(is_plain(&key), plain, "{byte} at {at} of {length}");
            }
        }
    }

    #[test]
    fn any_other_key_is_hashed_into_a_space_of_its_own() {
        let style = KeyStyle::default();
        for key in [&b""[..], b"a b", b"}x", b"a}b", b"{", b"{}", b"{a}{b}", b"#x", b"\xff", b"\0", &[b'k'; 201]] {
            let stored = stored("default", key, &style);
            let digest = stored.strip_prefix("tb:default:{#").and_then(|rest| rest.strip_suffix('}'));
            assert_eq!(digest.map(str::len), Some(43), "{stored}");
        }
    }

    #[test]
    fn parts_that_join_to_the_same_text_give_different_keys() {
        let style = KeyStyle::default();
        assert_ne!(stored("a:b", b"c", &style), stored("a", b"b:c", &style));
        assert_ne!(stored("a{b", b"c", &style), stored("a", b"{b:c", &style));
        assert_ne!(stored("a%7Bb", b"c", &style), stored("a{b", b"c", &style));
        let hashed = stored("a", b"a b", &style);
        let spelled = hashed.trim_start_matches("tb:a:{").trim_end_matches('}');
        assert_ne!(stored("a", spelled.as_bytes(), &style), hashed);
    }

    #[test]
    fn with_a_secret_the_hash_cannot_be_guessed_from_the_key() {
        let open = KeyStyle { hash_all: true, secret: None };
        let keyed = |secret: &[u8]| KeyStyle { hash_all: true, secret: Some(secret.into()) };
        let key = b"192.0.2.10";
        assert!(!stored("a", key, &open).contains("192.0.2.10"));
        assert_ne!(stored("a", key, &open), stored("a", key, &keyed(b"one")));
        assert_ne!(stored("a", key, &keyed(b"two")), stored("a", key, &keyed(b"one")));
        assert_eq!(stored("a", key, &keyed(b"one")), stored("a", key, &keyed(b"one")));
    }
}
