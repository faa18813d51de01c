//! `ClientIp`: whose address a request comes from.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::{FromZvalMut, StubLiteral};
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use ratelimit_core::{Error, ErrorKind, http};

use crate::convert::{Integer, Nullable, Text, shown, wrong_type};
use crate::decision::{PROBLEM, answer, parsed};
use crate::{engine, exception};

/// The prefix without `ipv6Prefix`, and the header without `header`.
const IPV6_PREFIX: i64 = 64;
const AUTO: &str = "auto";

/// No lines of a header.
const NONE: &str = "";

/// A resolver of the core.
#[php_class]
#[php(name = "RateLimit\\ClientIp")]
pub(crate) struct ClientIp {
    resolver: http::ClientIp,
}

#[php_impl]
impl ClientIp {
    #[php(defaults(ipv6Prefix = IPV6_PREFIX, header = AUTO))]
    pub(crate) fn __construct(
        trustedProxies: Option<&ZendHashTable>,
        ipv6Prefix: Integer,
        header: Text<'_>,
    ) -> PhpResult<Self> {
        let trusted = trustedProxies.map(texts).transpose()?.unwrap_or_default();
        let bits = ipv6Prefix.get("ipv6Prefix", |bits| invalid("ipv6_prefix", &shown(bits)))?;
        let header = parsed(header, "header")?;
        let resolver = http::ClientIp::new(trusted).and_then(|resolver| resolver.ipv6_prefix(bits));
        Ok(Self { resolver: resolver.map_err(|error| exception::from_core(&error))?.header(header) })
    }

    /// The key of the caller; null where nobody can tell.
    #[php(defaults(forwarded = NONE, xForwardedFor = NONE))]
    pub(crate) fn resolve(
        &self,
        peer: Nullable<Text<'_>>,
        forwarded: Lines,
        xForwardedFor: Lines,
    ) -> PhpResult<Option<String>> {
        let peer = peer.get("peer")?.unwrap_or_default();
        let (forwarded, x_forwarded_for) = (forwarded.get("forwarded")?, xForwardedFor.get("xForwardedFor")?);
        Ok(self.resolver.resolve(peer, &forwarded, &x_forwarded_for).map(|client| client.key()))
    }

    /// The key of all who do not say who they are, where they share one budget.
    pub(crate) fn shared_key() -> &'static str {
        http::MissingIdentity::SHARED_KEY
    }

    /// The answer to a request that does not say who is calling.
    #[php(defaults(body = PROBLEM))]
    pub(crate) fn unidentified(body: Text<'_>) -> PhpResult<ZBox<ZendHashTable>> {
        answer(http::unidentified(parsed(body, "body")?))
    }
}

/// The lines of a header: a list of them, or one as a string; an empty string is none.
pub(crate) enum Lines {
    Some(Vec<Vec<u8>>),
    Wrong(String),
}

impl Lines {
    fn get(self, argument: &'static str) -> PhpResult<Vec<Vec<u8>>> {
        match self {
            Self::Some(lines) => Ok(lines),
            Self::Wrong(type_) => Err(wrong_type(argument, "string|array", &type_)),
        }
    }
}

impl FromZvalMut<'_> for Lines {
    const TYPE: DataType = DataType::String;

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        if let Some(list) = value.array() {
            let line = |value: &Zval| match value.dereference().zend_str() {
                Some(line) => Ok(line.as_bytes().to_vec()),
                None => Err(format!("array with {}", engine::type_name(value.dereference()))),
            };
            return Some(list.values().map(line).collect::<Result<_, _>>().map_or_else(Self::Wrong, Self::Some));
        }
        Some(match Text::from_zval_mut(value)? {
            Text::Passed(text) if text.as_bytes().is_empty() => Self::Some(Vec::new()),
            Text::Passed(text) => Self::Some(vec![text.as_bytes().to_vec()]),
            Text::Default(_) => Self::Some(Vec::new()),
            Text::Wrong(type_) => Self::Wrong(type_),
        })
    }
}

impl From<&'static str> for Lines {
    fn from(_: &'static str) -> Self {
        Self::Some(Vec::new())
    }
}

impl StubLiteral for Lines {
    fn stub_literal(&self) -> String {
        NONE.stub_literal()
    }
}

/// The texts of an array.
fn texts(list: &ZendHashTable) -> PhpResult<Vec<String>> {
    let text = |value: &Zval| {
        let text = value.dereference().zend_str().map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        text.ok_or_else(|| {
            let got = format!("array with {}", engine::type_name(value.dereference()));
            wrong_type("trustedProxies", "array of strings", &got)
        })
    };
    list.values().map(text).collect()
}

fn invalid(argument: &'static str, got: &str) -> PhpException {
    let detail = format!("must be between 1 and 128, got {got}");
    exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, argument, detail))
}
