//! Whose address a request comes from, where proxies stand in between.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::core::http::{self, ForwardedHeader};
use crate::error::OrRaise as _;
use crate::key::bytes;
use crate::number::{prefix_bits, type_name};

/// Finds the address of the caller behind proxies that are trusted. The native half of `ratelimit_rs.http.ClientIp`.
#[derive(Debug)]
#[pyclass(frozen, name = "_ClientIp", module = "ratelimit_rs._native")]
pub(crate) struct ClientIp(http::ClientIp);

#[pymethods]
impl ClientIp {
    #[new]
    #[pyo3(signature = (trusted_proxies, ipv6_prefix, header))]
    fn new(trusted_proxies: &Bound<'_, PyAny>, ipv6_prefix: &Bound<'_, PyAny>, header: &str) -> PyResult<Self> {
        let header: ForwardedHeader = header.parse().or_raise()?;
        let bits = prefix_bits("ipv6_prefix", ipv6_prefix)?;
        let resolver = http::ClientIp::new(proxies(trusted_proxies)?).and_then(|it| it.ipv6_prefix(bits));
        Ok(Self(resolver.or_raise()?.header(header)))
    }

    /// The key of the caller; None where nobody can tell.
    fn resolve(
        &self,
        peer: Option<&Bound<'_, PyAny>>,
        forwarded: &Bound<'_, PyAny>,
        x_forwarded_for: &Bound<'_, PyAny>,
    ) -> PyResult<Option<String>> {
        let peer = peer.map(|peer| line("peer", peer)).transpose()?.unwrap_or_default();
        let (forwarded, x_forwarded_for) = (lines("forwarded", forwarded)?, lines("x_forwarded_for", x_forwarded_for)?);
        Ok(self.0.resolve(peer, &forwarded, &x_forwarded_for).map(|client| client.key()))
    }
}

/// The addresses and networks that an iterable of texts names. One text is a mistake that would be read letter by letter.
fn proxies(list: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let wrong = |got: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!("trusted_proxies must be a list of str, got {}", type_name(got)))
    };
    if bytes(list)?.is_some() {
        return Err(wrong(list));
    }
    let text = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        Ok(item.cast::<PyString>().map_err(|_| wrong(&item))?.to_str()?.to_owned())
    };
    list.try_iter().map_err(|_| wrong(list))?.map(text).collect()
}

/// The lines of a header: an iterable of them, or one alone; an empty one alone is none.
fn lines(argument: &'static str, given: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if let Some(line) = text(given) {
        return Ok(if line.is_empty() { Vec::new() } else { vec![line] });
    }
    let wrong = |_| {
        let got = type_name(given);
        PyTypeError::new_err(format!("{argument} must be str, bytes or a list of them, got {got}"))
    };
    given.try_iter().map_err(wrong)?.map(|item| line(argument, &item?)).collect()
}

/// One line.
fn line(argument: &'static str, given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let wrong = || PyTypeError::new_err(format!("{argument} must be str or bytes, got {}", type_name(given)));
    text(given).ok_or_else(wrong)
}

/// The bytes of a `str` or `bytes`. A text that came from a server may hold bytes that are no text, as surrogates: they
/// name no address, whatever becomes of them.
fn text(given: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match given.cast::<PyString>() {
        Ok(text) => Some(text.to_string_lossy().into_owned().into_bytes()),
        Err(_) => given.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().to_vec()),
    }
}
