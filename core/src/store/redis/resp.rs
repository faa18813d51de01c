//! The few forms of RESP that a decision needs, written and read without allocating.
//!
//! redis-rs reads any reply into a tree of owned values; for the one string that answers a decision that cost more than
//! everything else this library does.

use smallvec::SmallVec;

/// No reply of ours is longer; what claims to be is not a reply to us.
const MAX_REPLY: usize = 64 * 1024;

/// Nor is what a server says of itself: sentinels, clusters.
const MAX_REPORT: usize = 16 * 1024 * 1024;

/// Reports of servers are lists of lists of lists.
const MAX_DEPTH: u32 = 8;

/// A reply. Only the forms that are no decision own memory of the heap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Bulk(SmallVec<[u8; 40]>),
    Integer(i64),
    Status(Vec<u8>),
    Error(Vec<u8>),
    /// What a server says of itself; no decision has this form.
    List(Vec<Reply>),
    /// Nothing.
    Null,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A decision, or a plain answer.
    Answer,
    /// What a server says of itself.
    Report,
}

/// What the bytes read so far are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The beginning of a reply.
    Incomplete,
    /// A reply, and how many bytes it takes.
    Complete(Reply, usize),
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

/// Reads the reply at the beginning of the bytes.
pub(crate) fn parse(bytes: &[u8], expected: Expected) -> Parsed {
    let mut rest = bytes;
    let (depth, longest) = match expected {
        Expected::Answer => (0, MAX_REPLY),
        Expected::Report => (MAX_DEPTH, MAX_REPORT),
    };
    match parse_reply(&mut rest, depth) {
        Some(Ok(reply)) => Parsed::Complete(reply, bytes.len() - rest.len()),
        None if bytes.len() < longest => Parsed::Incomplete,
        Some(Err(NotAReply)) | None => Parsed::Invalid,
    }
}

/// The bytes are no reply to a command of ours.
struct NotAReply;

/// `None` while the reply has not arrived in full. Lists are read down to `depth`.
fn parse_reply(rest: &mut &[u8], depth: u32) -> Option<Result<Reply, NotAReply>> {
    let (kind, text) = next_line(rest)?;
    Some(match kind {
        b'$' | b'*' if text == b"-1" && depth > 0 => Ok(Reply::Null),
        b'$' => return Some(bytes(text, rest)?.map(|bytes| Reply::Bulk(SmallVec::from_slice(bytes)))),
        b':' => number(text).map(Reply::Integer).ok_or(NotAReply),
        b'+' => Ok(Reply::Status(text.to_vec())),
        b'-' => Ok(Reply::Error(text.to_vec())),
        // The form of RESP3 for errors that have line ends in them.
        b'!' => return Some(bytes(text, rest)?.map(|bytes| Reply::Error(bytes.to_vec()))),
        b'_' if text.is_empty() && depth > 0 => Ok(Reply::Null),
        b'*' | b'~' if depth > 0 => return list(text, 1, rest, depth),
        b'%' if depth > 0 => return list(text, 2, rest, depth),
        _ => Err(NotAReply),
    })
}

/// As many bytes as the line says, and the line's end after them.
fn bytes<'a>(length: &[u8], rest: &mut &'a [u8]) -> Option<Result<&'a [u8], NotAReply>> {
    let Some(length) = number(length).and_then(|length| usize::try_from(length).ok()).filter(|&it| it < MAX_REPLY)
    else {
        return Some(Err(NotAReply));
    };
    let (bytes, end) = (rest.get(..length)?, rest.get(length..length + 2)?);
    *rest = &rest[length + 2..];
    Some(if end == b"\r\n" { Ok(bytes) } else { Err(NotAReply) })
}

/// As many replies as the line says, times `of_each`: a map has two for each.
fn list(length: &[u8], of_each: usize, rest: &mut &[u8], depth: u32) -> Option<Result<Reply, NotAReply>> {
    let Some(length) = number(length).and_then(|length| usize::try_from(length).ok()).filter(|&it| it < MAX_REPLY)
    else {
        return Some(Err(NotAReply));
    };
    let mut replies = Vec::new();
    for _ in 0..length * of_each {
        match parse_reply(rest, depth - 1)? {
            Ok(reply) => replies.push(reply),
            Err(NotAReply) => return Some(Err(NotAReply)),
        }
    }
    Some(Ok(Reply::List(replies)))
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

    fn complete(bytes: &[u8], expected: Expected) -> Reply {
        match parse(bytes, expected) {
            Parsed::Complete(reply, length) if length == bytes.len() => reply,
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    fn bulk_of(bytes: &[u8]) -> Reply {
        Reply::Bulk(SmallVec::from_slice(bytes))
    }

    #[test]
    fn each_form_is_read() {
        for (bytes, reply) in [
            (&b"$3\r\na\r\n\r\n"[..], bulk_of(b"a\r\n")),
            (b"$0\r\n\r\n", bulk_of(b"")),
            (b":9007199254740992\r\n", Reply::Integer(9_007_199_254_740_992)),
            (b":-7\r\n", Reply::Integer(-7)),
            (b"+PONG\r\n", Reply::Status(b"PONG".to_vec())),
            (b"-NOSCRIPT No\r\n", Reply::Error(b"NOSCRIPT No".to_vec())),
            (b"!5\r\nERR x\r\n", Reply::Error(b"ERR x".to_vec())),
        ] {
            assert_eq!(complete(bytes, Expected::Answer), reply);
            assert_eq!(complete(bytes, Expected::Report), reply);
        }
    }

    #[test]
    fn reports_have_lists_in_them() {
        let slots = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:7000\r\n";
        let node = Reply::List(vec![bulk_of(b"h"), Reply::Integer(7000)]);
        let range = Reply::List(vec![Reply::Integer(0), Reply::Integer(16383), node]);
        assert_eq!(complete(slots, Expected::Report), Reply::List(vec![range]));
        assert_eq!(complete(b"*-1\r\n", Expected::Report), Reply::Null);
        assert_eq!(
            complete(b"%1\r\n+a\r\n_\r\n", Expected::Report),
            Reply::List(vec![Reply::Status(b"a".to_vec()), Reply::Null])
        );
        for length in 0..slots.len() {
            assert_eq!(parse(&slots[..length], Expected::Report), Parsed::Incomplete, "{length} bytes");
        }
        assert_eq!(parse(&b"*1\r\n".repeat(50), Expected::Report), Parsed::Invalid, "too deep");
        assert_eq!(parse(b"*99999999\r\n", Expected::Report), Parsed::Invalid);
    }

    #[test]
    fn a_reply_ends_where_the_next_begins() {
        let two = b":1\r\n:2\r\n";
        assert_eq!(parse(two, Expected::Answer), Parsed::Complete(Reply::Integer(1), 4));
        assert_eq!(parse(&two[4..], Expected::Answer), Parsed::Complete(Reply::Integer(2), 4));
    }

    #[test]
    fn every_beginning_of_a_reply_is_incomplete() {
        for reply in [&b"$12\r\n0123456789\r\n\r\n"[..], b"-ERR wrong\r\n", b":12\r\n"] {
            for length in 0..reply.len() {
                assert_eq!(
                    parse(&reply[..length], Expected::Answer),
                    Parsed::Incomplete,
                    "{length} bytes of {reply:?}"
                );
            }
        }
    }

    #[test]
    fn whatever_else_arrives_is_refused() {
        for bytes in [
            &b"$-1\r\n"[..],
            b"*-1\r\n",
            b"_\r\n",
            b"$1\r\nab\r\n",
            b"$99999999\r\n",
            b"*1\r\n:1\r\n",
            b"%1\r\n:1\r\n:1\r\n",
            b">1\r\n:1\r\n",
            b":x\r\n",
            b":\r\n",
            b":1e3\r\n",
            b":99999999999999999999\r\n",
            b"\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
        ] {
            assert_eq!(parse(bytes, Expected::Answer), Parsed::Invalid, "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(&vec![b'+'; MAX_REPLY], Expected::Answer), Parsed::Invalid);
    }
}
