//! How a redis-py client checks certificates, and which one it shows.

use std::path::PathBuf;

use pyo3::prelude::*;

use super::refused;
use super::settings::Settings;
use crate::core::store::dsn::TlsOptions;

/// Settings by which redis-py checks more, or less, or otherwise than we would.
const OTHERS: [&str; 10] = [
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_password",
    "ssl_ciphers",
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
    "ssl_ocsp_context",
    "ssl_ocsp_expected_cert",
    "ssl_include_verify_flags",
    "ssl_exclude_verify_flags",
];

/// `ssl.TLSVersion.TLSv1_2`: what we speak at least.
const TLS_1_2: i64 = 0x0303;

/// The encryption of a client that has some.
pub(super) fn options(settings: &Settings<'_>) -> PyResult<TlsOptions> {
    for name in OTHERS {
        if settings.get(name)?.is_some_and(|value| value.is_truthy().unwrap_or(true)) {
            return Err(not_reproduced(settings, name));
        }
    }
    // `TLSVersion.MINIMUM_SUPPORTED` is below zero as well as `MAXIMUM_SUPPORTED`, -1.
    let min_version = settings.get("ssl_min_version")?.map(|version| version.extract::<i64>()).transpose()?;
    if min_version.is_some_and(|version| version > TLS_1_2 || version == -1) {
        return Err(not_reproduced(settings, "ssl_min_version"));
    }
    let insecure = !checks_certificate(settings)?;
    let checks_name = settings.get("ssl_check_hostname")?.is_none_or(|check| check.is_truthy().unwrap_or(true));
    if !insecure && !checks_name {
        let detail = "checks the server's certificate and not its name (ssl_check_hostname), which we cannot: \
                      give a DSN with server_name, or with insecure=1";
        return Err(refused(settings.argument(), detail));
    }
    let cert = path(settings, "ssl_certfile")?;
    let key = path(settings, "ssl_keyfile")?;
    if key.is_some() && cert.is_none() {
        return Err(refused(settings.argument(), "has an ssl_keyfile without an ssl_certfile"));
    }
    // One file may hold both.
    let key = key.or_else(|| cert.clone());
    Ok(TlsOptions { ca: path(settings, "ssl_ca_certs")?, cert, key, server_name: None, insecure })
}

/// `ssl_cert_reqs` is a name or an `ssl.VerifyMode`. `None` is one of its values, and left out it is "required". What is
/// optional for a server is required by a client.
fn checks_certificate(settings: &Settings<'_>) -> PyResult<bool> {
    match settings.value("ssl_cert_reqs")? {
        None => Ok(true),
        Some(value) if value.is_none() => Ok(false),
        Some(value) => match value.extract::<i64>() {
            Ok(mode) => Ok(mode != 0),
            Err(_) => Ok(value.extract::<String>()? != "none"),
        },
    }
}

fn path(settings: &Settings<'_>, name: &str) -> PyResult<Option<PathBuf>> {
    settings.get(name)?.map(|path| path.extract::<PathBuf>()).transpose()
}

fn not_reproduced(settings: &Settings<'_>, name: &str) -> PyErr {
    refused(settings.argument(), &format!("has {name}, which connections of ours cannot follow"))
}
