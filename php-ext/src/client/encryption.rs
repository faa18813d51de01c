//! How a client object encrypts its connections.

use std::path::PathBuf;

use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::ZendHashTable;
use ratelimit_core::store::dsn::TlsOptions;

use super::{invalid, text};
use crate::engine;

/// Whether connections of this scheme are encrypted; none when it is no scheme of a Redis connection over TCP.
pub(super) fn of_scheme(scheme: &str) -> Option<bool> {
    match scheme {
        "tcp" | "redis" => Some(false),
        "tls" | "ssl" | "rediss" | "tlsv1.2" | "tlsv1.3" => Some(true),
        _ => None,
    }
}

/// What PHP itself does where nothing is said about certificates.
pub(super) fn by_default() -> TlsOptions {
    TlsOptions { ca: engine::setting(c"openssl.cafile").map(PathBuf::from), ..TlsOptions::default() }
}

/// The options of PHP's SSL streams. What cannot be kept and would make the connection safer, or is needed for it, is an
/// error.
pub(super) fn of_stream(options: &ZendHashTable) -> PhpResult<TlsOptions> {
    let file = |name: &str| options.get(name).and_then(text).map(PathBuf::from);
    let is = |name: &str, on: bool| {
        options.get(name).is_some_and(|value| !value.is_null() && value.dereference().coerce_to_bool() == on)
    };
    let insecure = is("verify_peer", false);
    for name in ["capath", "passphrase", "peer_fingerprint"] {
        if options.get(name).is_some_and(|value| value.dereference().coerce_to_bool()) {
            return Err(unknown(name));
        }
    }
    if !insecure && is("allow_self_signed", true) {
        return Err(unknown("allow_self_signed"));
    }
    if !insecure && is("verify_peer_name", false) {
        return Err(invalid(
            "the client's SSL option verify_peer_name=false cannot be kept; peer_name can say which name is certified",
        ));
    }
    let default = by_default();
    let cert = file("local_cert");
    Ok(TlsOptions {
        ca: file("cafile").or(default.ca),
        // As in PHP, the key may be in the certificate's file.
        key: file("local_pk").or_else(|| cert.clone()),
        cert,
        server_name: options.get("peer_name").and_then(text),
        insecure,
    })
}

fn unknown(name: &str) -> ext_php_rs::exception::PhpException {
    invalid(format!("the client's SSL option {name} cannot be kept; name the server with a rediss:// DSN instead"))
}
