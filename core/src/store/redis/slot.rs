//! Which of a cluster's slots a key is in.

/// How many there are.
pub(super) const SLOTS: u16 = 16384;

/// The slot of a key: of what stands in its first pair of braces, if anything does, else of all of it.
pub(super) fn of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    match key[open + 1..].iter().position(|&byte| byte == b'}') {
        Some(length @ 1..) => &key[open + 1..=open + length],
        Some(0) | None => key,
    }
}

/// CRC-16/XMODEM, as the cluster specification says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = table();

#[allow(clippy::cast_possible_truncation)]
const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(of(b"foo"), 12182);
    }

    #[test]
    fn only_what_is_in_the_first_braces_counts() {
        assert_eq!(of(b"rl:tb:default:{u1}"), of(b"u1"));
        assert_eq!(of(b"rl:{u1}:a"), 4574);
        assert_eq!(of(b"a{b}{c}"), of(b"b"));
        assert_eq!(of(b"a{{b}}c"), of(b"{b"));
        assert_ne!(of(b"{}x"), of(b""));
        assert_ne!(of(b"a{b"), of(b"b"));
    }
}
