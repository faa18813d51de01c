//! Where a Redis client object of the application connects to, so that we can connect to the same place ourselves.
//!
//! The object's own connection is never used, since it may be in a transaction, in a pipeline or subscribed, and its
//! replies are PHP values. Only a `\RedisSentinel` has to be asked, which has no such states.

mod phpredis;

mod predis;

mod encryption;

use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;
use ratelimit_core::Error;
use ratelimit_core::store::dsn::{Address, RedisOptions};

use crate::{engine, exception};

/// The client objects that [`place`] knows; the end of a sentence.
pub(crate) const KINDS: &str = "a connected Redis, a RedisCluster, a RedisSentinel or a Predis\\ClientInterface";

/// The place a client object connects to; none when it is no client that we know.
pub(crate) fn place(client: &ZendObject) -> PhpResult<Option<RedisOptions>> {
    let of = |class| engine::class(class).is_some_and(|class| client.instance_of(class));
    Ok(Some(if of("Redis") {
        phpredis::server(client)?
    } else if of("RedisCluster") {
        phpredis::cluster(client)?
    } else if of("RedisSentinel") {
        phpredis::sentinel(client)?
    } else if of("Predis\\ClientInterface") {
        predis::place(client)?
    } else {
        return Ok(None);
    }))
}

fn tcp(host: &str, port: Option<i64>) -> PhpResult<Address> {
    // Clients take an IPv6 address with and without.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(invalid("the client does not say which host it is connected to"));
    }
    let port = port.unwrap_or(6379);
    let port =
        u16::try_from(port).map_err(|_| invalid(format!("the client's port must be below 65536, got {port}")))?;
    Ok(Address::Tcp(host.to_owned(), port))
}

/// Addresses in an order of their own: the same servers then give the same store, in whatever order a client knows them.
fn ordered(mut addresses: Vec<Address>) -> Vec<Address> {
    addresses.sort_by_key(ToString::to_string);
    addresses.dedup();
    addresses
}

fn database(number: Option<i64>) -> PhpResult<u32> {
    let number = number.unwrap_or(0);
    u32::try_from(number).map_err(|_| invalid(format!("the client's database must not be negative, got {number}")))
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
    call_with(object, method, vec![])
}

fn call_with(object: &ZendObject, method: &str, arguments: Vec<&dyn IntoZvalDyn>) -> PhpResult<Zval> {
    let result = object.try_call_method(method, arguments);
    pass_exception()?;
    result.map_err(|_| invalid(format!("the client has no method {method}()")))
}

/// Ends the call when PHP code that was called has thrown.
fn pass_exception() -> PhpResult {
    if ExecutorGlobals::has_exception() {
        // The pending exception is the one the caller gets; this one is never thrown.
        return Err(PhpException::from("the client threw"));
    }
    Ok(())
}

fn wrong_scheme(scheme: &str) -> PhpException {
    invalid(format!("the client's connection must use the scheme tcp, tls or unix, got {scheme}"))
}

fn invalid(detail: impl Into<String>) -> PhpException {
    exception::from_core(&Error::invalid_store(detail))
}
