//! Who holds a lock or a lease.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// The proof of holding a lock or a lease: 32 hexadecimal digits that nobody else has.
///
/// It is a plain text, to be kept anywhere; whoever shows it may extend or release what it stands for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Holder(String);

impl Holder {
    /// A new one. Asks the system each time, since two processes forked from one must not draw the same.
    pub(crate) fn draw() -> Result<Self> {
        let mut bytes = [0; 16];
        // So few bytes come all at once.
        let drawn = getrandom(&mut bytes[..], GetRandomFlags::empty());
        drawn.map_err(|error| Error::internal(format!("the system gives no random numbers: {error}")))?;
        // Zero is for nobody.
        Ok(Self(format!("{:032x}", u128::from_le_bytes(bytes).max(1))))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Holder {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<Holder> for String {
    fn from(holder: Holder) -> Self {
        holder.0
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever reads it in a log could release what it stands for.
        f.write_str("Holder(…)")
    }
}

/// The number that a text stands for; none where it is not the text of any holder.
pub(crate) fn number(text: &str) -> Option<u128> {
    let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(text, 16).ok().filter(|&number| digits && number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_is_another_and_can_be_read_back() {
        let (one, two) = (Holder::draw().expect("random numbers"), Holder::draw().expect("random numbers"));
        assert_ne!(one, two);
        assert_eq!(number(one.as_str()).map(|number| format!("{number:032x}")), Some(one.as_str().to_owned()));
        assert_eq!(format!("{one:?}"), "Holder(…)");
    }

    #[test]
    fn what_is_no_holders_text_stands_for_nobody() {
        let texts = ["", "1", "+0000000000000000000000000000001", "G0000000000000000000000000000000"];
        assert!(texts.iter().all(|text| number(text).is_none()));
        assert!(
            number(&"0".repeat(32)).is_none() && number(&"A".repeat(32)).is_none() && number(&"a".repeat(33)).is_none()
        );
        assert_eq!(number(&format!("{:032x}", 7)), Some(7));
    }
}
