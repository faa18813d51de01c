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
    Bulk(SmallVec<[u8; 40]>),
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

/// Appends the head of one part of a command; its bytes and a line's end have to follow.
pub(crate) fn bulk_head(out: &mut Vec<u8>, length: usize) {
    line(out, b'$', length as u64);
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
        b'$' => return bulk_reply(text, rest),
        b':' => number(text).map(Reply::Integer).ok_or(NotAReply),
        b'+' => Ok(Reply::Status(text.to_vec())),
        b'-' => Ok(Reply::Error(text.to_vec())),
        _ => Err(NotAReply),
    })
}

fn bulk_reply(length: &[u8], rest: &mut &[u8]) -> Option<Result<Reply, NotAReply>> {
    let Some(length) = number(length).and_then(|length| usize::try_from(length).ok()).filter(|&it| it < MAX_REPLY)
    else {
        return Some(Err(NotAReply));
    };
    let (bytes, end) = (rest.get(..length)?, rest.get(length..length + 2)?);
    let reply = if end == b"\r\n" { Ok(Reply::Bulk(SmallVec::from_slice(bytes))) } else { Err(NotAReply) };
    *rest = &rest[length + 2..];
    Some(reply)
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

    #[test]
    fn each_form_is_read() {
        assert_eq!(parse(b"$3\r\na\r\n\r\n"), Parsed::Complete(Reply::Bulk(SmallVec::from_slice(b"a\r\n"))));
        assert_eq!(parse(b"$0\r\n\r\n"), Parsed::Complete(Reply::Bulk(SmallVec::new())));
        assert_eq!(parse(b":9007199254740992\r\n"), Parsed::Complete(Reply::Integer(9_007_199_254_740_992)));
        assert_eq!(parse(b":-7\r\n"), Parsed::Complete(Reply::Integer(-7)));
        assert_eq!(parse(b"+PONG\r\n"), Parsed::Complete(Reply::Status(b"PONG".to_vec())));
        assert_eq!(parse(b"-NOSCRIPT No\r\n"), Parsed::Complete(Reply::Error(b"NOSCRIPT No".to_vec())));
    }

    #[test]
    fn every_beginning_of_a_reply_is_incomplete() {
        for reply in [&b"$12\r\n0123456789\r\n\r\n"[..], b"-ERR wrong\r\n", b":12\r\n"] {
            for length in 0..reply.len() {
                assert_eq!(parse(&reply[..length]), Parsed::Incomplete, "{length} bytes of {reply:?}");
            }
        }
    }

    #[test]
    fn whatever_else_arrives_is_refused() {
        for bytes in [
            &b"$-1\r\n"[..],
            b"$1\r\nab\r\n",
            b"$99999999\r\n",
            b"*1\r\n:1\r\n",
            b":x\r\n",
            b":\r\n",
            b":1e3\r\n",
            b":99999999999999999999\r\n",
            b":1\r\n:2\r\n",
            b"\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
        ] {
            assert_eq!(parse(bytes), Parsed::Invalid, "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(&vec![b'+'; MAX_REPLY]), Parsed::Invalid);
    }
}
