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
     *
     * Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`) and
     * `?pool=` (idle connections kept, 64). In php.ini a DSN with options has to stand in quotes.
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
     * A Redis or Valkey server, named by a DSN or by a client object of the application.
     *
     * Of a client object only the place it connects to is used (host and port or socket, user, password, database); the
     * connection is our own. An option in the DSN holds, unless an argument says something else than its default.
     *
     * @param string|\Redis|\Predis\ClientInterface $redis
     * @param float $timeout seconds a call may take, connecting aside; above 0, at most 3600
     * @param float $connectTimeout seconds that connecting may take, authentication included
     * @param string $prefix what every key starts with: printable ASCII without spaces and braces
     *
     * @throws Exception\InvalidStore If an argument has a fault, or the client object is not connected.
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
     * What kind of store it is.
     *
     * @return 'memory'|'redis'
     */
    public function kind(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
