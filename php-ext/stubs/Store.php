<?php

namespace RateLimit;

/**
 * Where the state of every key lives.
 *
 * Nothing is connected to before the first call. Connections stay in the worker from one request to the next and are
 * never used by a forked child.
 *
 * ```php
 * $store = Store::open('redis://127.0.0.1:6379/0?timeout=0.1');
 * $limiter = new Limiter(Policy::tokenBucket(10, 1.0), $store);
 * ```
 */
final class Store
{
    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The store that a DSN names; the same DSN gives the same store throughout the worker, also in later requests.
     *
     * | DSN | store |
     * |---|---|
     * | `shared:`, `shared:/path` | every process of this user; `?size=` (64MiB), `?timeout=` (seconds, 0.2) |
     * | `memory:` | memory of this process; `?max_keys=` |
     * | `redis://[user:password@]host[:port][/database]` | a Redis or Valkey server over TCP |
     * | `redis+unix:///path/to/socket` | the same over a socket; `?db=`, `?username=`, `?password=` |
     * | `redis+sentinel://[user:password@]host[:port],…/master[/database]` | the primary that sentinels name; `?sentinel_username=`, `?sentinel_password=` |
     * | `redis+cluster://[user:password@]host[:port],…` | a cluster, found through these nodes |
     *
     * `valkey` may stand for `redis`. `rediss` and `valkeys` are encrypted, also with `+sentinel` and `+cluster`: `?ca=` is a
     * file with the authorities to be trusted (else the system's), `?cert=` and `?key=` are files of the client's own,
     * `?server_name=` is the name to be certified, and `?insecure=1` takes any certificate.
     *
     * Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`), `?pool=`
     * (idle connections kept per server, 64), `?deny_cache=` (used-up keys that are refused without asking, 10000; 0 for
     * none), `?protocol=` (`resp2` or `resp3`), `?client_name=`, and `?clock=caller` for services that refuse `TIME` in
     * scripts. In php.ini a DSN with options has to stand in quotes.
     *
     * @throws Exception\InvalidStore If the DSN has a fault; the message names the part and repeats no password.
     */
    public static function open(string $dsn): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * A new store in memory, which lives as long as the object; `Store::open('memory:')` is the one of the worker.
     *
     * @param int $maxKeys keys it holds at most, at least 1; then those closest to whole are forgotten first
     *
     * @throws Exception\InvalidStore If `$maxKeys` is below 1.
     */
    public static function memory(int $maxKeys = 1000000): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The store that all processes of this user share: in a file, or in the default place without a path.
     *
     * @param ?string $path the file; `/dev/shm/ratelimit-` and the user's id without it
     * @param int $bytes the size it is made with where there is none, from 1 MiB to 1 TiB
     *
     * @throws Exception\InvalidStore If it cannot be made or is not what it should be: a link, another user's, of another size.
     */
    public static function shared(?string $path = null, int $bytes = 67108864): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Redis or Valkey servers, named by a DSN or by a client object of the application.
     *
     * Of a client object only the place it connects to is used; the connection is our own. An option in the DSN holds,
     * unless an argument says something else than its default.
     *
     * | object | what is taken from it |
     * |---|---|
     * | `\Redis`, connected | host and port or socket, user, password, database, and whether it is encrypted |
     * | `\RedisCluster` | its nodes |
     * | `\RedisSentinel` | the primary it watches, which has to be the only one, and the other sentinels. It is asked for them each time, in two round trips |
     * | Predis: one server, `cluster => redis`, `replication` | all of that, and the SSL options |
     *
     * The classes of phpredis do not give away which certificates they use, nor `\RedisCluster` and `\RedisSentinel` their
     * passwords and whether they are encrypted: name such servers with a DSN. The authorities of an encrypted `\Redis` are
     * those of `openssl.cafile`, else the system's.
     *
     * @param string|\Redis|\RedisCluster|\RedisSentinel|\Predis\ClientInterface $redis
     * @param float $timeout seconds a call may take, connecting aside; above 0, at most 3600
     * @param float $connectTimeout seconds that connecting may take, authentication included
     * @param string $prefix what every key starts with: printable ASCII without spaces and braces
     *
     * @throws Exception\InvalidStore If an argument has a fault; if the client object is not connected, does not say where
     *     its servers are, or has an SSL option that cannot be kept.
     */
    public static function redis(
        string|object $redis = 'redis://127.0.0.1:6379',
        float $timeout = 0.2,
        float $connectTimeout = 0.2,
        string $prefix = 'rl:',
    ): self {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Seconds that a round trip to the store takes; 0.0 for memory.
     *
     * @throws Exception\StoreUnavailable If it does not answer.
     */
    public function ping(): float
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * How full it is, for stores that hold their state themselves; null for a server. Looks at every slot.
     *
     * `slots` states it can hold, `used` that still count, `expired` whose slots are taken as others are needed,
     * `evicted` live ones forgotten to make room since it was made: above 0 it is too small; `bytes` it may take.
     *
     * @return ?array{slots: int, used: int, expired: int, evicted: int, bytes: int}
     */
    public function info(): ?array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Whether callers are kept away from a server that let them wait: then the failure rule answers at once.
     *
     * @return 'closed'|'open'
     */
    public function breaker(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What kind of store it is.
     *
     * @return 'memory'|'shared'|'redis'|'sentinel'|'cluster'
     */
    public function kind(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
