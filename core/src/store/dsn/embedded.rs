//! The DSNs of stores that hold their state themselves.

use super::parts::Parts;
use super::redis::{number, seconds};
use super::{DEFAULT_TIMEOUT, Dsn, invalid, unknown_option};
use crate::error::{Error, Result};
use crate::store::DEFAULT_MAX_KEYS;

/// The size of a shared store's file, unless the DSN says otherwise: 64 MiB.
pub const DEFAULT_SHARED_BYTES: u64 = 64 << 20;

/// The smallest size of a shared store's file, a mebibyte.
pub const MIN_SHARED_BYTES: u64 = 1 << 20;

/// The largest size of a shared store's file, a tebibyte.
pub const MAX_SHARED_BYTES: u64 = 1 << 40;

pub(super) fn memory(parts: &Parts<'_>) -> Result<Dsn> {
    let mut max_keys = DEFAULT_MAX_KEYS;
    for (name, value) in parts.options()? {
        match name.as_str() {
            "max_keys" => max_keys = number("max_keys", &value)?,
            other => return Err(unknown_option(other, "max_keys")),
        }
    }
    if parts.names_a_place() {
        return Err(Error::invalid_store("a memory: DSN takes nothing after its colon but ?max_keys="));
    }
    Ok(Dsn::Memory { max_keys })
}

pub(super) fn shared(parts: &Parts<'_>) -> Result<Dsn> {
    let (mut bytes, mut timeout) = (DEFAULT_SHARED_BYTES, DEFAULT_TIMEOUT);
    for (name, value) in parts.options()? {
        match name.as_str() {
            "size" => bytes = size("size", &value)?,
            "timeout" => timeout = seconds("timeout", number("timeout", &value)?)?,
            other => return Err(unknown_option(other, "size and timeout")),
        }
    }
    let path = parts.path()?;
    if parts.has_host() || !(path.is_empty() || path.starts_with('/') && !path.ends_with('/')) {
        return Err(invalid("path", "must be absolute and name a file, as in shared:/run/app/limits"));
    }
    Ok(Dsn::Shared { path: (!path.is_empty()).then(|| path.into()), bytes, timeout })
}

/// A number of bytes, plain or with a unit.
fn size(argument: &'static str, text: &str) -> Result<u64> {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (count, unit) = unit.unwrap_or((text, 1));
    let bytes = count.trim_end().parse().ok().and_then(|count: u64| count.checked_mul(unit));
    let bytes = bytes.ok_or_else(|| {
        invalid(argument, format!("must be a number of bytes, or of KiB, MiB or GiB as in 64MiB, got {text:?}"))
    })?;
    shared_bytes(argument, bytes)
}

/// A size that a shared store's file can have.
pub(crate) fn shared_bytes(argument: &'static str, bytes: u64) -> Result<u64> {
    let (least, most) = (MIN_SHARED_BYTES, MAX_SHARED_BYTES);
    if (least..=most).contains(&bytes) {
        return Ok(bytes);
    }
    Err(invalid(argument, format!("must be between 1 MiB ({least} bytes) and 1 TiB ({most} bytes), got {bytes}")))
}
