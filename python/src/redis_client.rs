//! Reads from a redis-py client where it connects to. The client itself is never used: we open our own connections.

mod settings;

mod tls;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use self::settings::Settings;
use crate::core::ErrorKind;
use crate::core::store::dsn::{Address, RedisOptions, Servers};
use crate::error;

/// The servers that `client` connects to, with its credentials, database and encryption; `None` when it is no such
/// client.
///
/// It may be a client of one server, of the primary that a Sentinel names, or of a cluster. Raises `InvalidStore` for
/// what connections of ours could not reproduce.
pub(crate) fn options(argument: &'static str, client: &Bound<'_, PyAny>) -> PyResult<Option<RedisOptions>> {
    if let Some(manager) = client.getattr_opt("nodes_manager")? {
        return of_cluster(argument, client, &manager).map(Some);
    }
    if is_a(&client.get_type(), "Sentinel")? {
        return Err(refused(argument, "is a Sentinel: what its master_for(name) returns is needed"));
    }
    let Some(pool) = client.getattr_opt("connection_pool")? else { return Ok(None) };
    let Some(settings) = Settings::of_pool(argument, &pool)? else { return Ok(None) };
    if is_a(&pool.get_type(), "SentinelConnectionPool")? {
        return of_sentinel(&pool, &settings).map(Some);
    }
    settings.options(Servers::One(settings.address()?)).map(Some)
}

fn of_cluster(argument: &'static str, client: &Bound<'_, PyAny>, manager: &Bound<'_, PyAny>) -> PyResult<RedisOptions> {
    if is_given(manager, "address_remap")? {
        return Err(refused(argument, "has an address_remap, which connections of ours would not go through"));
    }
    let settings = manager.getattr("connection_kwargs")?.cast_into::<PyDict>()?;
    let settings = Settings::new(argument, settings, None)?;
    // The nodes that it was made with, where it remembers them: those that it found since may be gone tomorrow.
    let nodes = match client.getattr_opt("startup_nodes")? {
        Some(nodes) => nodes,
        None => manager.getattr("startup_nodes")?.call_method0("values")?,
    };
    let mut seeds = Vec::new();
    for node in nodes.try_iter()? {
        let node = node?;
        seeds.push((node.getattr("host")?.extract::<String>()?, node.getattr("port")?.extract::<u16>()?));
    }
    settings.options(Servers::Cluster { seeds: in_order(seeds) })
}

fn of_sentinel(pool: &Bound<'_, PyAny>, settings: &Settings<'_>) -> PyResult<RedisOptions> {
    let argument = settings.argument();
    if !pool.getattr("is_master")?.is_truthy()? {
        return Err(refused(argument, "is a client of a Sentinel's replicas; one of its primary is needed"));
    }
    let manager = pool.getattr("sentinel_manager")?;
    if is_given(&manager, "_force_master_ip")? {
        return Err(refused(
            argument,
            "has a Sentinel with a force_master_ip, which connections of ours would not use",
        ));
    }
    if manager.getattr("min_other_sentinels")?.is_truthy()? {
        return Err(refused(argument, "has a Sentinel with min_other_sentinels, which we would not ask for"));
    }
    let mut watchers = Vec::new();
    for sentinel in manager.getattr("sentinels")?.try_iter()? {
        let watcher = Settings::of_pool(argument, &sentinel?.getattr("connection_pool")?)?;
        watchers.push(watcher.ok_or_else(|| refused(argument, "has a Sentinel that cannot be read"))?);
    }
    let asked = watchers.iter().map(|watcher| Ok((watcher.credentials()?, watcher.tls()?)));
    let mut asked = asked.collect::<PyResult<Vec<_>>>()?;
    if asked.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(refused(argument, "has sentinels with different credentials"));
    }
    let Some(((username, password), tls)) = asked.pop() else {
        return Err(refused(argument, "has a Sentinel without sentinels"));
    };
    if tls != settings.tls()? {
        let detail = "encrypts its connections to the sentinels and to the servers differently (sentinel_kwargs)";
        return Err(refused(argument, detail));
    }
    let sentinels = watchers.iter().map(|watcher| Ok((watcher.host()?, watcher.port()?)));
    let sentinels = in_order(sentinels.collect::<PyResult<_>>()?);
    let master = settings.as_text("service_name", &pool.getattr("service_name")?)?.unwrap_or_default();
    settings.options(Servers::Sentinel { sentinels, master, username, password })
}

/// Servers in an order of their own: a client changes its own order as it goes, and stays the same store.
fn in_order(mut servers: Vec<(String, u16)>) -> Vec<Address> {
    servers.sort();
    servers.dedup();
    servers.into_iter().map(|(host, port)| Address::Tcp(host, port)).collect()
}

/// Whether an object has an attribute that is not `None`.
fn is_given(object: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    Ok(object.getattr_opt(name)?.is_some_and(|value| !value.is_none()))
}

/// Whether a class, or one it derives from, has this name. redis-py itself is not imported: it may not be installed.
fn is_a(class: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    for base in class.mro() {
        if base.cast::<PyType>()?.name()? == name {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused(argument: &'static str, detail: &str) -> PyErr {
    error::argument(ErrorKind::InvalidStore, argument, detail)
}
