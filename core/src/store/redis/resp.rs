//! The few forms of RESP that a decision needs, written and read without allocating.
//!
//! redis-rs reads any reply into a tree of owned values; for the one integer array that answers a decision that cost
//! more than everything else this library does. Setting up a connection is left to redis-rs.

use smallvec::SmallVec;

/// No reply of ours is longer; what claims to be is not a reply to us.
const MAX_REPLY: usize = 64 * 1024;

/// A reply. Only the forms that are no decision own memory of the heap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Integers(SmallVec<[i64; 8]>),
    Integer(i64),
    Status(Vec<u8>),
    Error(Vec<u8>),
}

/// What the bytes read so far are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The beginning of a reply.
    Incomplete,
    /// Exactly one reply.
    Complete(Reply),
    /// Nothing that answers a command of ours.
    Invalid,
}

/// Appends the head of a command of `parts` parts.
pub(crate) fn array(out: &mut Vec<u8>, parts: usize) {
    line(out, b'*', parts as u64);
}

/// Appends one part of a command.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    line(out, b'$', bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends one part of a command that is made of two pieces.
pub(crate) fn bulk_joined(out: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    line(out, b'$', (first.len() + second.len()) as u64);
    out.extend_from_slice(first);
    out.extend_from_slice(second);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as one part of a command.
pub(crate) fn integer(out: &mut Vec<u8>, number: u64) {
    bulk(out, itoa::Buffer::new().format(number).as_bytes());
}

fn line(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads one reply; bytes after it make it invalid, since nothing else has been asked for.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut rest = bytes;
    match parse_reply(&mut rest) {
        Some(Ok(reply)) if rest.is_empty() => Parsed::Complete(reply),
        None if bytes.len() < MAX_REPLY => Parsed::Incomplete,
        Some(_) | None => Parsed::Invalid,
    }
}

/// The bytes are no reply to a command of ours.
struct NotAReply;

/// `None` while the reply has not arrived in full.
fn parse_reply(rest: &mut &[u8]) -> Option<Result<Reply, NotAReply>> {
    let (kind, text) = next_line(rest)?;
    Some(match kind {
        b'*' => return integers(text, rest),
        b':' => number(text).map(Reply::Integer).ok_or(NotAReply),
        b'+' => Ok(Reply::Status(text.to_vec())),
        b'-' => Ok(Reply::Error(text.to_vec())),
        _ => Err(NotAReply),
    })
}

fn integers(count: &[u8], rest: &mut &[u8]) -> Option<Result<Reply, NotAReply>> {
    let Some(count) = number(count).and_then(|count| usize::try_from(count).ok()).filter(|&count| count <= 1024) else {
        return Some(Err(NotAReply));
    };
    let mut integers = SmallVec::new();
    for _ in 0..count {
        let (kind, text) = next_line(rest)?;
        match number(text) {
            Some(integer) if kind == b':' => integers.push(integer),
            _ => return Some(Err(NotAReply)),
        }
    }
    Some(Ok(Reply::Integers(integers)))
}

/// The next line: its first byte, and what is between that and the line's end.
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = (&rest[..end], &rest[end + 2..]);
    *rest = after;
    // An empty line has no kind; zero is none either.
    Some(line.split_first().map_or((0, line), |(&kind, text)| (kind, text)))
}

/// A decimal integer, with a sign where it is negative.
fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.iter().try_fold(0_i64, |sum, digit| {
        digit.is_ascii_digit().then_some(())?;
        sum.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
    })?;
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn each_form_is_read() {
        assert_eq!(parse(b"*2\r\n:1\r\n:-1\r\n"), Parsed::Complete(Reply::Integers(smallvec![1, -1])));
        assert_eq!(parse(b":9007199254740992\r\n"), Parsed::Complete(Reply::Integer(9_007_199_254_740_992)));
        assert_eq!(parse(b"+PONG\r\n"), Parsed::Complete(Reply::Status(b"PONG".to_vec())));
        assert_eq!(parse(b"-NOSCRIPT No\r\n"), Parsed::Complete(Reply::Error(b"NOSCRIPT No".to_vec())));
    }

    #[test]
    fn every_beginning_of_a_reply_is_incomplete() {
        for reply in [&b"*4\r\n:1\r\n:9\r\n:0\r\n:1000000\r\n"[..], b"-ERR wrong\r\n", b":12\r\n"] {
            for length in 0..reply.len() {
                assert_eq!(parse(&reply[..length]), Parsed::Incomplete, "{length} bytes of {reply:?}");
            }
        }
    }

    #[test]
    fn whatever_else_arrives_is_refused() {
        for bytes in [
            &b"$-1\r\n"[..],
            b"*-1\r\n",
            b"*1\r\n$1\r\n1\r\n",
            b"*1\r\n:x\r\n",
            b":\r\n",
            b":1e3\r\n",
            b":99999999999999999999\r\n",
            b"*99999999\r\n",
            b":1\r\n:2\r\n",
            b"\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
        ] {
            assert_eq!(parse(bytes), Parsed::Invalid, "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(&vec![b'+'; MAX_REPLY]), Parsed::Invalid);
    }
}
