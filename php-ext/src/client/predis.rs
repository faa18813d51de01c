//! Clients of the Predis library, versions 1 to 3.

use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::{ZendCallable, ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ClassEntry;
use ratelimit_core::store::dsn::{Address, RedisOptions, Secret, Servers, TlsOptions};

use super::{call, database, encryption, invalid, number, ordered, pass_exception, tcp, text, wrong_scheme};
use crate::engine;

const NODE: [&str; 1] = ["Predis\\Connection\\NodeConnectionInterface"];
const CLUSTER: [&str; 2] = ["Predis\\Connection\\Cluster\\RedisCluster", "Predis\\Connection\\Aggregate\\RedisCluster"];
const SENTINEL: [&str; 2] =
    ["Predis\\Connection\\Replication\\SentinelReplication", "Predis\\Connection\\Aggregate\\SentinelReplication"];
const REPLICATION: [&str; 2] =
    ["Predis\\Connection\\Replication\\ReplicationInterface", "Predis\\Connection\\Aggregate\\ReplicationInterface"];

/// The place that a client connects to.
pub(super) fn place(client: &ZendObject) -> PhpResult<RedisOptions> {
    let connection = call(client, "getConnection")?;
    let refused = || {
        let got = engine::type_name(&connection);
        invalid(format!(
            "a Predis client must be connected to one server, to a cluster of Redis's or through sentinels, got {got}"
        ))
    };
    let object = connection.object().ok_or_else(refused)?;
    if is(object, &NODE).is_some() {
        return Parameters::of_node(object)?.server();
    }
    if let Some(class) = is(object, &CLUSTER) {
        return cluster(object, class);
    }
    if let Some(class) = is(object, &SENTINEL) {
        return sentinel(object, class);
    }
    if is(object, &REPLICATION).is_some() {
        let master = call(object, "getMaster")?;
        let master = master.object().ok_or_else(|| invalid("the Predis client knows no primary"))?;
        return Parameters::of_node(master)?.server();
    }
    Err(refused())
}

/// The nodes that the client was given, and those it has found since.
fn cluster(connection: &ZendObject, class: &ClassEntry) -> PhpResult<RedisOptions> {
    let pool = engine::read_property(class, connection, "pool");
    let nodes = pool.array().into_iter().flat_map(ZendHashTable::values);
    let nodes: Vec<Parameters> =
        nodes.filter_map(|node| node.dereference().object()).map(Parameters::of_node).collect::<PhpResult<_>>()?;
    // A node that was found may lack what the given ones have, so the first speaks for all.
    let Some(first) = nodes.first() else {
        return Err(invalid("the Predis client knows no node; name the cluster with a redis+cluster:// DSN"));
    };
    let seeds = ordered(nodes.iter().map(Parameters::tcp).collect::<PhpResult<_>>()?);
    first.with_credentials(RedisOptions { tls: first.encryption()?, ..RedisOptions::of(Servers::Cluster { seeds }) })
}

/// The sentinels that the client was given, and the parameters it uses for whatever they name.
fn sentinel(connection: &ZendObject, class: &ClassEntry) -> PhpResult<RedisOptions> {
    let unknown = || invalid("the Predis client names no sentinels; name them with a redis+sentinel:// DSN");
    let read = |property| engine::read_property(class, connection, property);
    let master = text(&read("service")).ok_or_else(unknown)?;
    let factory = read("connectionFactory");
    let factory = factory.object().filter(|factory| is(factory, &["Predis\\Connection\\Factory"]).is_some());
    let defaults = factory.map(|factory| call(factory, "getDefaultParameters")).transpose()?.unwrap_or_default();

    // The one that is talked to is no longer in the list.
    let (current, others) = (read("sentinelConnection"), read("sentinels"));
    let given = current.object().map(|_| &current).into_iter();
    let given = given.chain(others.array().into_iter().flat_map(ZendHashTable::values));
    let given: Vec<Parameters> = given.map(|sentinel| Parameters::of(sentinel, &defaults)).collect::<PhpResult<_>>()?;
    let first = given.first().ok_or_else(unknown)?;
    let sentinels = ordered(given.iter().map(Parameters::tcp).collect::<PhpResult<_>>()?);

    let data = Parameters { own: Zval::new(), defaults };
    let tls = data.encryption()?;
    if tls.is_some() != first.encryption()?.is_some() {
        return Err(invalid("the Predis client must encrypt the connections to sentinels and servers, or neither"));
    }
    let (username, password) =
        (first.own("username").and_then(text), first.own("password").and_then(text).map(Secret::new));
    let servers = Servers::Sentinel { sentinels, master, username, password };
    data.with_credentials(RedisOptions { tls, ..RedisOptions::of(servers) })
}

/// What a connection is made with: an array, and another one for what is missing from it.
struct Parameters {
    own: Zval,
    defaults: Zval,
}

impl Parameters {
    fn of_node(node: &ZendObject) -> PhpResult<Self> {
        let parameters = call(node, "getParameters")?;
        let own = match parameters.object() {
            Some(parameters) => call(parameters, "toArray")?,
            None => parameters,
        };
        if own.array().is_none() {
            return Err(invalid("the Predis connection has no parameters"));
        }
        Ok(Self { own, defaults: Zval::new() })
    }

    /// Of a connection, of an array or of a URL.
    fn of(given: &Zval, defaults: &Zval) -> PhpResult<Self> {
        let given = given.dereference();
        if let Some(node) = given.object() {
            return Self::of_node(node);
        }
        let own = if given.is_string() {
            let parse = ZendCallable::try_from_name("Predis\\Connection\\Parameters::parse");
            let parsed = parse.and_then(|parse| parse.try_call(vec![given]));
            pass_exception()?;
            parsed.map_err(|_| invalid("the Predis client has a URL that cannot be read"))?
        } else {
            given.shallow_clone()
        };
        Ok(Self { own, defaults: defaults.shallow_clone() })
    }

    /// A parameter of the connection's own.
    fn own(&self, name: &str) -> Option<&Zval> {
        self.own.array()?.get(name).filter(|value| !value.dereference().is_null())
    }

    fn get(&self, name: &str) -> Option<&Zval> {
        self.own(name).or_else(|| self.defaults.array()?.get(name))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(text)
    }

    /// The options of a client that has one server.
    fn server(&self) -> PhpResult<RedisOptions> {
        if self.text("scheme").as_deref() == Some("unix") {
            let path = self.text("path").ok_or_else(|| invalid("the Predis connection has no path"))?;
            return self.with_credentials(RedisOptions::new(Address::Unix(path.into())));
        }
        self.with_credentials(RedisOptions { tls: self.encryption()?, ..RedisOptions::new(self.tcp()?) })
    }

    /// Where it leads; a socket is not for sentinels and nodes.
    fn tcp(&self) -> PhpResult<Address> {
        // Predis has this default, also for sentinels.
        let host = self.text("host").unwrap_or_else(|| "127.0.0.1".to_owned());
        tcp(&host, self.get("port").and_then(number))
    }

    fn encryption(&self) -> PhpResult<Option<TlsOptions>> {
        let scheme = self.text("scheme").unwrap_or_else(|| "tcp".to_owned());
        match encryption::of_scheme(&scheme) {
            None => Err(wrong_scheme(&scheme)),
            Some(false) => Ok(None),
            Some(true) => match self.get("ssl").and_then(Zval::array) {
                Some(options) => encryption::of_stream(options).map(Some),
                None => Ok(Some(encryption::by_default())),
            },
        }
    }

    fn with_credentials(&self, options: RedisOptions) -> PhpResult<RedisOptions> {
        Ok(RedisOptions {
            username: self.text("username"),
            password: self.text("password").map(Secret::new),
            database: database(self.get("database").and_then(number))?,
            ..options
        })
    }
}

/// The class among these that an object is of.
fn is(object: &ZendObject, classes: &[&str]) -> Option<&'static ClassEntry> {
    classes.iter().filter_map(|name| engine::class(name)).find(|class| object.instance_of(class))
}
