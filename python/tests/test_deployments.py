"""Sentinels, clusters and encryption, named by DSN and by clients of redis-py."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from deployments import Certificates, Cluster, Sentinels, command, is_primary
from servers import RedisServer, eventually, free_port

from ratelimit_rs import InvalidStore, Limiter, Policy, Store, StoreUnavailable, TokenBucket

FIVE = Policy.token_bucket(5, 1, 3600)
TIMEOUTS = "?timeout=5&connect_timeout=5"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def sentinels() -> Iterator[Sentinels]:
    sentinels = Sentinels(password="watch-secret")
    yield sentinels
    sentinels.close()


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    certificates = Certificates()
    yield certificates
    certificates.close()


class TlsServer:
    """A server with an encrypted port."""

    def __init__(self, certificates: Certificates, *, asks_clients: bool) -> None:
        self.port = free_port()
        self.server = RedisServer(*certificates.options(self.port, asks_clients=asks_clients))
        self.dsn = f"rediss://localhost:{self.port}{TIMEOUTS}&ca={certificates.ca}"


@pytest.fixture(scope="module", params=[False, True], ids=["any client", "clients with certificates"])
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[TlsServer]:
    server = TlsServer(certificates, asks_clients=request.param)
    yield server
    server.server.close()


@pytest.fixture
def strict(certificates: Certificates) -> Iterator[TlsServer]:
    server = TlsServer(certificates, asks_clients=True)
    yield server
    server.server.close()


def remaining(store: Any, key: str) -> int:
    return Limiter(FIVE, store).allow(key).remaining


def test_every_way_to_name_a_cluster_shares_one_budget(cluster: Cluster) -> None:
    host, port = cluster.addresses[1]
    client: Any = redis.RedisCluster(host=host, port=port)
    by_url: Any = redis.RedisCluster.from_url(f"redis://{host}:{port}")
    later: Any = redis.asyncio.RedisCluster(host=host, port=port)
    stores = [cluster.dsn + TIMEOUTS, Store.redis(f"redis+cluster://{host}:{port}", timeout=5), client, by_url, later]
    for key in cluster.keys():
        assert [remaining(store, key) for store in stores] == [4, 3, 2, 1, 0]
    assert Store.open(cluster.dsn).kind == "cluster"
    assert Store.open(cluster.dsn).ping() > 0
    assert TokenBucket(client, capacity=5).allow("bucket") == (True, 4.0)
    client.close()
    by_url.close()


def test_a_cluster_client_stays_one_store_while_it_learns_of_other_nodes(cluster: Cluster) -> None:
    nodes = [redis.cluster.ClusterNode(*address) for address in cluster.addresses]
    client: Any = redis.RedisCluster(startup_nodes=nodes)
    assert remaining(client, "stays") == 4
    before = sum(connections(node) for node in cluster.nodes)
    for left in (3, 2):
        client.nodes_manager.startup_nodes.popitem()
        client.startup_nodes.reverse()
        assert remaining(client, "stays") == left
    assert sum(connections(node) for node in cluster.nodes) == before
    client.close()


def connections(node: RedisServer) -> int:
    """How many connections have been used for decisions, or to learn which node has what."""
    with node.client() as client:
        return len([one for one in client.client_list() if one["cmd"] in ("evalsha", "eval", "cluster|slots")])


def test_keys_of_several_slots_in_one_call_are_refused_before_anything_is_sent(cluster: Cluster) -> None:
    limiter = Limiter([Policy.gcra(5, 60, name="a"), Policy.gcra(5, 60, name="b")], cluster.dsn + TIMEOUTS)
    first, second, _ = cluster.keys()
    for call in (
        lambda: limiter.allow({"a": first, "b": second}),
        lambda: limiter.allow_many([first, {"a": first, "b": second}]),
    ):
        with pytest.raises(ValueError, match="^key must be one for all policies on a cluster"):
            call()
    assert limiter.peek(first).remaining == 5


def test_every_way_to_name_what_sentinels_watch_shares_one_budget(sentinels: Sentinels) -> None:
    options: dict[str, Any] = {"sentinel_kwargs": {"password": "watch-secret"}}
    sentinel: Any = redis.sentinel.Sentinel(sentinels.addresses, **options)  # type: ignore[no-untyped-call]
    later: Any = redis.asyncio.sentinel.Sentinel(sentinels.addresses, **options)  # type: ignore[no-untyped-call]
    dsn = f"{sentinels.dsn}{TIMEOUTS}&sentinel_password=watch-secret"
    stores = [dsn, Store.redis(dsn), sentinel.master_for("mymaster"), later.master_for("mymaster")]
    assert [remaining(store, "k") for store in stores] == [4, 3, 2, 1]
    assert Store.open(dsn).kind == "sentinel"
    with sentinels.primary.client() as client:
        assert client.dbsize() == 1
        assert remaining(sentinel.master_for("mymaster", db=3), "k") == 4
        assert client.info("keyspace")["db3"]["keys"] == 1


def test_a_client_of_a_sentinel_is_read_without_being_used(sentinels: Sentinels) -> None:
    options: dict[str, Any] = {"sentinel_kwargs": {"password": "watch-secret"}}
    client = redis.sentinel.Sentinel(sentinels.addresses, **options).master_for("mymaster")  # type: ignore[no-untyped-call]
    limiter = Limiter(FIVE, client)
    assert client.connection_pool.master_address is None
    assert "'sentinel'" in repr(limiter)


def test_a_wrong_password_on_the_sentinels_is_told_and_not_repeated(sentinels: Sentinels) -> None:
    with pytest.raises(StoreUnavailable, match="WRONGPASS") as caught:
        remaining(sentinels.dsn + TIMEOUTS + "&sentinel_password=wrong-secret", "k")
    assert "wrong-secret" not in str(caught.value)


def test_a_failover_is_followed() -> None:
    sentinels = Sentinels()
    try:
        limiter = Limiter(FIVE, sentinels.dsn + "?timeout=0.5&connect_timeout=0.5")
        assert limiter.allow("k").remaining == 4
        with sentinels.primary.client() as client:
            client.wait(1, 2000)
        sentinels.primary.stop()
        with pytest.raises(StoreUnavailable):
            limiter.allow("k")
        eventually("the failover", lambda: is_primary(sentinels.replica) and sentinels.name(sentinels.replica))
        answers = []
        for _ in range(2):
            try:
                answers.append(limiter.allow("k").remaining)
            except StoreUnavailable as error:
                answers.append(error.kind)
        assert answers in ([3, 2], [answers[0], 3])
    finally:
        sentinels.close()


# As the documentation says.
RIGHTS = ["~rl:*", "+evalsha", "+eval", "+get", "+set", "+setrange", "+del", "+time"]


def limit_rights(server: RedisServer | tuple[str, int], *rights: str, password: str | None = None) -> None:
    """Gives the user `limited` these rights and no others."""
    port = server.port if isinstance(server, RedisServer) else server[1]
    client = redis.Redis(host="127.0.0.1", port=port, password=password)
    command(client, "ACL", "SETUSER", "limited", "reset", "on", ">pw", *rights)
    client.close()


def test_the_documented_rights_are_enough_and_needed_on_a_cluster(cluster: Cluster) -> None:
    dsn = cluster.dsn.replace("//", "//limited:pw@") + TIMEOUTS
    for node in cluster.nodes:
        limit_rights(node, *RIGHTS, "+cluster|slots", "+asking")
    limiter = Limiter(FIVE, dsn)
    for key in cluster.keys():
        assert limiter.allow(f"{{{key}}} limited").remaining == 4
    # Each store asks for the map anew.
    for node in cluster.nodes:
        limit_rights(node, *RIGHTS, "+asking")
    with pytest.raises(StoreUnavailable, match=r"NOPERM .*cluster\|slots"):
        remaining(dsn + "&pool=7", "k")

    key = "moving"
    slot, old, new = cluster.slot(key), *cluster.primaries[:2]
    if cluster.owner(old, key) != old.port:
        old, new = next(node for node in cluster.primaries if node.port == cluster.owner(old, key)), old
    cluster.tell(new, "SETSLOT", slot, "IMPORTING", cluster.tell(old, "MYID"))
    cluster.tell(old, "SETSLOT", slot, "MIGRATING", cluster.tell(new, "MYID"))
    assert limiter.allow(key).remaining == 4
    for node in cluster.nodes:
        limit_rights(node, *RIGHTS)
    with pytest.raises(StoreUnavailable) as caught:
        limiter.allow(key)
    assert caught.value.kind == "noperm"
    for node in (old, new):
        cluster.tell(node, "SETSLOT", slot, "NODE", cluster.tell(new, "MYID"))


def test_the_documented_rights_are_enough_and_needed_with_sentinels(sentinels: Sentinels) -> None:
    asked = f"{TIMEOUTS}&sentinel_username=limited&sentinel_password=pw"
    dsn = sentinels.dsn.replace("//", "//limited:pw@") + asked
    for sentinel in sentinels.addresses:
        limit_rights(sentinel, "+sentinel|get-master-addr-by-name", password="watch-secret")
    limit_rights(sentinels.primary, *RIGHTS)
    assert remaining(dsn, "limited") == 4
    with pytest.raises(StoreUnavailable) as caught:
        remaining(dsn.replace("mymaster", "mymaster/3"), "limited")
    assert caught.value.kind == "noperm"
    limit_rights(sentinels.primary, *RIGHTS, "+select", "+client|setname", "+role")
    for sentinel in sentinels.addresses:
        limit_rights(sentinel, "+sentinel|get-master-addr-by-name", "+client|setname", password="watch-secret")
    assert remaining(dsn.replace("mymaster", "mymaster/3") + "&client_name=named&protocol=resp3", "limited") == 4
    for sentinel in sentinels.addresses:
        limit_rights(sentinel, "+ping", password="watch-secret")
    with pytest.raises(StoreUnavailable, match=r"NOPERM .*sentinel\|get-master-addr-by-name"):
        remaining(dsn + "&pool=7", "limited")


def client_of(tls: TlsServer, certificates: Certificates, **options: Any) -> redis.Redis:
    options = {"ssl_ca_certs": certificates.ca, "ssl_certfile": certificates.cert, "ssl_keyfile": certificates.key} | options
    return redis.Redis(host="localhost", port=tls.port, ssl=True, **options)


def test_every_way_to_name_an_encrypted_server_shares_one_budget(tls: TlsServer, certificates: Certificates) -> None:
    cert, key = certificates.cert, certificates.key
    url = f"rediss://127.0.0.1:{tls.port}?ssl_ca_certs={certificates.ca}&ssl_certfile={cert}&ssl_keyfile={key}"
    pool = redis.ConnectionPool(
        connection_class=redis.SSLConnection, host="127.0.0.1", port=tls.port,
        ssl_ca_certs=certificates.ca, ssl_certfile=certificates.both, ssl_keyfile=None,
    )  # fmt: skip
    stores = [
        f"{tls.dsn}&cert={cert}&key={key}",
        client_of(tls, certificates),
        redis.Redis.from_url(url),
        redis.Redis(connection_pool=pool),
        redis.asyncio.Redis.from_url(url),
    ]
    assert [remaining(store, "k") for store in stores] == [4, 3, 2, 1, 0]


def test_a_server_whose_certificate_does_not_hold_is_not_talked_to(
    tls: TlsServer, certificates: Certificates
) -> None:
    shown = f"&cert={certificates.cert}&key={certificates.key}"
    stranger = Certificates()
    try:
        for store in (
            f"rediss://localhost:{tls.port}{TIMEOUTS}&ca={stranger.ca}{shown}",
            f"{tls.dsn}{shown}&server_name=other.example",
            client_of(tls, certificates, ssl_ca_certs=stranger.ca),
        ):
            with pytest.raises(StoreUnavailable, match="certificate"):
                remaining(store, "mistrusted")
        # Not checked where that is asked for.
        unchecked: list[Any] = [
            f"rediss://localhost:{tls.port}{TIMEOUTS}&insecure=1{shown}",
            client_of(tls, certificates, ssl_ca_certs=stranger.ca, ssl_cert_reqs="none", ssl_check_hostname=False),
            client_of(tls, certificates, ssl_ca_certs=None, ssl_cert_reqs=None),
            client_of(tls, certificates, ssl_ca_certs=None, ssl_cert_reqs=ssl.CERT_NONE),
        ]
        assert [remaining(store, "unchecked") for store in unchecked] == [4, 3, 2, 1]
    finally:
        stranger.close()


def test_a_client_without_a_certificate_is_turned_away_where_one_is_asked_for(
    strict: TlsServer, certificates: Certificates
) -> None:
    for store in (strict.dsn, client_of(strict, certificates, ssl_certfile=None, ssl_keyfile=None)):
        with pytest.raises(StoreUnavailable):
            remaining(store, "k")


def make_sentinel(**options: Any) -> Any:
    make: Any = redis.sentinel.Sentinel
    return make([("127.0.0.1", 1)], **options)


def unconnected_cluster(**options: Any) -> Any:
    # The one of asyncio connects later, and keeps the same settings.
    make: Any = redis.asyncio.RedisCluster
    return make(host="127.0.0.1", port=1, **options)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: redis.Redis(ssl=True, ssl_check_hostname=False), "checks the server's certificate and not its name"),
        (lambda: redis.Redis(ssl=True, ssl_password="x"), "has ssl_password, which connections of ours cannot follow"),
        (lambda: redis.Redis(ssl=True, ssl_ca_data="x"), "has ssl_ca_data, which"),
        (lambda: redis.Redis(ssl=True, ssl_ciphers="x"), "has ssl_ciphers, which"),
        (lambda: redis.Redis(ssl=True, ssl_validate_ocsp=True), "has ssl_validate_ocsp, which"),
        (lambda: redis.Redis(ssl=True, ssl_min_version=ssl.TLSVersion.TLSv1_3), "has ssl_min_version, which"),
        (lambda: redis.Redis(ssl=True, ssl_keyfile="x"), "has an ssl_keyfile without an ssl_certfile"),
        (lambda: make_sentinel(), "is a Sentinel: what its master_for(name) returns is needed"),
        (lambda: make_sentinel().slave_for("m"), "is a client of a Sentinel's replicas; one of its primary is needed"),
        (lambda: make_sentinel(min_other_sentinels=1).master_for("m"), "has a Sentinel with min_other_sentinels, which"),
        (lambda: make_sentinel(force_master_ip="::1").master_for("m"), "has a Sentinel with a force_master_ip, which"),
        (lambda: make_sentinel(ssl=True).master_for("m"), "encrypts its connections to the sentinels and to the servers"),
        (lambda: unconnected_cluster(address_remap=lambda address: address), "has an address_remap, which"),
        (lambda: unconnected_cluster(ssl=True, ssl_check_hostname=False), "checks the server's certificate and not its"),
    ],
)
def test_what_we_cannot_do_alike_is_refused(make: Callable[[], Any], text: str) -> None:
    client = make()
    for argument, use in (("store", lambda: Limiter(FIVE, client)), ("redis_client", lambda: TokenBucket(client))):
        with pytest.raises(InvalidStore) as caught:
            use()
        assert str(caught.value).startswith(f"{argument} {text}")


def test_a_version_of_tls_that_we_speak_anyway_may_be_the_least() -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.MINIMUM_SUPPORTED, None):
        client: Any = redis.Redis(ssl=True, ssl_min_version=version, ssl_cert_reqs="none")
        assert "'redis'" in repr(Limiter(FIVE, client))


def test_a_file_that_is_no_certificate_is_told_when_the_store_is_named(certificates: Certificates) -> None:
    for dsn in (f"rediss://h?ca={certificates.key}", "rediss://h?ca=/nowhere.pem"):
        with pytest.raises(InvalidStore, match="^ca must be a PEM file"):
            Store.open(dsn)
