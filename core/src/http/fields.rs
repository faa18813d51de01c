//! The structured fields `RateLimit` and `RateLimit-Policy`.

use super::{reset_seconds, whole_seconds};
use crate::decision::Decision;
use crate::policy::Policy;

/// A list of named items: `"default";q=10;w=10` and `"default";r=9;t=1`.
pub(super) fn items(decision: &Decision, policy: &Policy) -> Vec<(&'static str, String)> {
    let name = string(policy.name());
    let window = whole_seconds(policy.window_us());
    vec![
        ("RateLimit-Policy", format!("{name};q={};w={window}", decision.limit())),
        ("RateLimit", format!("{name};r={};t={}", decision.remaining(), reset_seconds(decision))),
    ]
}

/// The dictionary of draft -07: `limit=10, remaining=9, reset=1`, with `10;w=10` as the policy.
pub(super) fn dictionary(decision: &Decision, policy: &Policy) -> Vec<(&'static str, String)> {
    let (limit, remaining, reset) = (decision.limit(), decision.remaining(), reset_seconds(decision));
    vec![
        ("RateLimit-Policy", format!("{limit};w={}", whole_seconds(policy.window_us()))),
        ("RateLimit", format!("limit={limit}, remaining={remaining}, reset={reset}")),
    ]
}

/// A policy's name as an RFC 9651 String; names are printable ASCII already.
fn string(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::string;

    #[test]
    fn a_name_is_quoted_as_a_structured_string() {
        assert_eq!(string("login"), "\"login\"");
        assert_eq!(string(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
