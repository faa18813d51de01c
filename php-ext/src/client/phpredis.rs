//! The classes of the phpredis extension.

use std::path::PathBuf;

use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ratelimit_core::store::dsn::{Address, RedisOptions, Secret, Servers};

use super::{call, call_with, database, encryption, invalid, number, ordered, tcp, text, wrong_scheme};

/// A `\Redis`.
pub(super) fn server(client: &ZendObject) -> PhpResult<RedisOptions> {
    if call(client, "isConnected")?.bool() != Some(true) {
        return Err(invalid("the Redis object is not connected; call connect() first"));
    }
    let host = text(&call(client, "getHost")?).unwrap_or_default();
    let port = number(&call(client, "getPort")?);
    let mut options = if host.starts_with('/') || host.starts_with("unix://") {
        RedisOptions::new(Address::Unix(PathBuf::from(host.trim_start_matches("unix://"))))
    } else if let Some((scheme, rest)) = host.split_once("://") {
        let encrypted = encryption::of_scheme(scheme).ok_or_else(|| wrong_scheme(scheme))?;
        RedisOptions { tls: encrypted.then(encryption::by_default), ..RedisOptions::new(tcp(rest, port)?) }
    } else {
        RedisOptions::new(tcp(&host, port)?)
    };
    // A password, or a list of user and password.
    let auth = call(client, "getAuth")?;
    if let Some(parts) = auth.array() {
        let parts: Vec<_> = parts.values().filter_map(text).collect();
        match parts.as_slice() {
            [] => {}
            [password] => options.password = Some(Secret::new(password)),
            [user, password, ..] => {
                options.username = Some(user.clone());
                options.password = Some(Secret::new(password));
            }
        }
    } else {
        options.password = text(&auth).map(Secret::new);
    }
    options.database = database(number(&call(client, "getDbNum")?))?;
    Ok(options)
}

/// A `\RedisCluster`, which knows its nodes without being asked anew. It says nothing of passwords and encryption.
pub(super) fn cluster(client: &ZendObject) -> PhpResult<RedisOptions> {
    let masters = call(client, "_masters")?;
    let address = |node: &Zval| {
        let node = node.dereference().array()?;
        Some(tcp(&text(node.get_index(0)?)?, node.get_index(1).and_then(number)))
    };
    let seeds: Vec<Address> = members(&masters).filter_map(address).collect::<PhpResult<_>>()?;
    if seeds.is_empty() {
        return Err(invalid("the RedisCluster object knows no node; name the cluster with a redis+cluster:// DSN"));
    }
    Ok(RedisOptions::of(Servers::Cluster { seeds: ordered(seeds) }))
}

/// A `\RedisSentinel`: the sentinels that the one it talks to knows, since it does not say where that one is.
pub(super) fn sentinel(client: &ZendObject) -> PhpResult<RedisOptions> {
    let masters = call(client, "masters")?;
    let names: Vec<String> = tables(&masters).filter_map(|master| master.get("name").and_then(text)).collect();
    let master = match names.as_slice() {
        [name] => name.clone(),
        [] => return Err(no_sentinel("names no primary")),
        several => {
            let detail = format!("watches {} primaries ({})", several.len(), several.join(", "));
            return Err(no_sentinel(&detail));
        }
    };
    let others = call_with(client, "sentinels", vec![&master])?;
    let address = |sentinel: &ZendHashTable| {
        Some(tcp(&sentinel.get("ip").and_then(text)?, sentinel.get("port").and_then(number)))
    };
    let sentinels: Vec<Address> = tables(&others).filter_map(address).collect::<PhpResult<_>>()?;
    if sentinels.is_empty() {
        return Err(no_sentinel("knows no other sentinel, and does not say where it is itself"));
    }
    Ok(RedisOptions::of(Servers::Sentinel { sentinels: ordered(sentinels), master, username: None, password: None }))
}

fn no_sentinel(why: &str) -> PhpException {
    invalid(format!("the RedisSentinel {why}; name it with a redis+sentinel://host:port/master DSN"))
}

fn members(list: &Zval) -> impl Iterator<Item = &Zval> {
    list.array().into_iter().flat_map(ZendHashTable::values)
}

fn tables(list: &Zval) -> impl Iterator<Item = &ZendHashTable> {
    members(list).filter_map(|member| member.dereference().array())
}
