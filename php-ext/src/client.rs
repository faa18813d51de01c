//! Where a Redis client object of the application connects to, so that we can connect to the same place ourselves.
//!
//! The object's own connection is never used: it may be in a transaction, in a pipeline or subscribed, and its replies
//! are PHP values.

use std::path::PathBuf;

use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;
use ratelimit_core::Error;
use ratelimit_core::store::dsn::{Address, RedisOptions, Secret};

use crate::{engine, exception};

/// The place a client object connects to; none when it is no client that we know.
pub(crate) fn place(client: &ZendObject) -> PhpResult<Option<RedisOptions>> {
    if engine::is_a(client, "Redis") {
        return phpredis(client).map(Some);
    }
    if engine::is_a(client, "Predis\\ClientInterface") {
        return predis(client).map(Some);
    }
    Ok(None)
}

/// A `\Redis` of the phpredis extension.
fn phpredis(client: &ZendObject) -> PhpResult<RedisOptions> {
    if call(client, "isConnected")?.bool() != Some(true) {
        return Err(invalid("the Redis object is not connected; call connect() first"));
    }
    let host = text(&call(client, "getHost")?).unwrap_or_default();
    let port = number(&call(client, "getPort")?);
    let mut options = if host.starts_with('/') || host.starts_with("unix://") {
        RedisOptions::new(Address::Unix(PathBuf::from(host.trim_start_matches("unix://"))))
    } else if let Some((scheme, rest)) = host.split_once("://") {
        if scheme != "tcp" {
            return Err(encrypted(scheme));
        }
        tcp(rest, port)?
    } else {
        tcp(&host, port)?
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

/// A client of the Predis library, with a connection to one server.
fn predis(client: &ZendObject) -> PhpResult<RedisOptions> {
    let connection = call(client, "getConnection")?;
    let Some(node) =
        connection.object().filter(|node| engine::is_a(node, "Predis\\Connection\\NodeConnectionInterface"))
    else {
        let got = engine::type_name(&connection);
        return Err(invalid(format!("a Predis client must be connected to one server, got {got}")));
    };
    let parameters = call(node, "getParameters")?;
    let parameters = match parameters.object() {
        Some(parameters) => call(parameters, "toArray")?,
        None => parameters,
    };
    let parameters = parameters.array().ok_or_else(|| invalid("the Predis connection has no parameters"))?;
    let mut options = match parameter(parameters, "scheme").as_deref() {
        Some("unix") => {
            let path = parameter(parameters, "path").ok_or_else(|| invalid("the Predis connection has no path"))?;
            RedisOptions::new(Address::Unix(path.into()))
        }
        Some("tcp" | "redis") | None => {
            let host = parameter(parameters, "host").unwrap_or_default();
            tcp(host.trim_matches(['[', ']']), parameters.get("port").and_then(number))?
        }
        Some(scheme) => return Err(encrypted(scheme)),
    };
    options.username = parameter(parameters, "username");
    options.password = parameter(parameters, "password").map(Secret::new);
    options.database = database(parameters.get("database").and_then(number))?;
    Ok(options)
}

fn tcp(host: &str, port: Option<i64>) -> PhpResult<RedisOptions> {
    if host.is_empty() {
        return Err(invalid("the client does not say which host it is connected to"));
    }
    let port = port.unwrap_or(6379);
    let port =
        u16::try_from(port).map_err(|_| invalid(format!("the client's port must be below 65536, got {port}")))?;
    Ok(RedisOptions::new(Address::Tcp(host.to_owned(), port)))
}

fn database(number: Option<i64>) -> PhpResult<u32> {
    let number = number.unwrap_or(0);
    u32::try_from(number).map_err(|_| invalid(format!("the client's database must not be negative, got {number}")))
}

fn parameter(parameters: &ZendHashTable, name: &str) -> Option<String> {
    parameters.get(name).and_then(text)
}

/// A string that is not empty; clients say false, null or "" where there is nothing.
fn text(value: &Zval) -> Option<String> {
    value.dereference().string().filter(|text| !text.is_empty())
}

/// A number, also one written in a string, as in a URL.
fn number(value: &Zval) -> Option<i64> {
    let value = value.dereference();
    value.long().or_else(|| value.str()?.parse().ok())
}

/// Calls a method without arguments; its exception goes to the caller.
fn call(object: &ZendObject, method: &str) -> PhpResult<Zval> {
    let result = object.try_call_method(method, vec![]);
    if ExecutorGlobals::has_exception() {
        // The pending exception is the one the caller gets; this one is never thrown.
        return Err(PhpException::from("the client threw"));
    }
    result.map_err(|_| invalid(format!("the client has no method {method}()")))
}

fn encrypted(scheme: &str) -> PhpException {
    invalid(format!("the client's connection must use the scheme tcp or unix, got {scheme}"))
}

fn invalid(detail: impl Into<String>) -> PhpException {
    exception::from_core(&Error::invalid_store(detail))
}
