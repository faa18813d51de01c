<?php

namespace RateLimit;

/**
 * Lets at most so many pieces of work on a key be under way at a time, whoever does them.
 *
 * ```php
 * $uploads = new Concurrency(limit: 3, leaseTtl: 60.0, store: 'redis://127.0.0.1:6379', name: 'uploads');
 * $uploads->run("user:{$id}", fn () => store($file));   // LimitExceeded where three are under way
 * ```
 *
 * Each piece of work holds a lease, which ends by itself after `$leaseTtl` seconds where its holder dies; a holder that
 * needs longer extends it. On an embedded store every step looks at all leases of a key, so limits beyond some thousands
 * belong on Redis.
 *
 * A key is any bytes; an int is taken as its digits.
 */
final class Concurrency
{
    /**
     * Asks the store nothing.
     *
     * @param int $limit leases on each key, 1 to 2147483647
     * @param float $leaseTtl seconds after which a lease ends by itself, from 0.001
     * @param null|string|Store|\Redis|\RedisCluster|\RedisSentinel|\Predis\ClientInterface $store as for
     *     {@see Limiter::__construct()}
     * @param string $name 1 to 100 printable ASCII characters; two names share no leases
     * @param null|Clock $clock for tests: instead of the store's own clock
     *
     * @throws Exception\InvalidPolicy If `$limit`, `$leaseTtl` or `$name` is out of range.
     * @throws Exception\InvalidStore As for {@see Limiter::__construct()}.
     */
    public function __construct(
        int $limit,
        float $leaseTtl,
        mixed $store = null,
        string $name = 'default',
        ?Clock $clock = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes a lease, sleeping while all are taken.
     *
     * Those who wait are in no queue. Signal handlers run during the sleep (with `pcntl_async_signals(true)`); an exception
     * in one ends the wait, and nothing is held then. With a {@see ManualClock} nobody sleeps, and the clock is moved on.
     *
     * @param string $key on what
     * @param float $maxWait seconds; 0.0 is one try, INF as long as it takes
     *
     * @return null|string the lease's text, by which it is extended and released, in any process and language; null where all
     *     are still taken
     *
     * @throws Exception\InvalidArgument If `$maxWait` is negative or NAN.
     * @throws Exception\StoreUnavailable If the store gave no answer; a lease may be taken then, until its time is over.
     */
    public function acquire(string $key, float $maxWait = 0.0): ?string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Makes a lease last anew.
     *
     * @param string $key as for acquire()
     * @param string $lease what acquire() returned
     *
     * @return bool false where its time was over before, or nobody has it
     *
     * @throws Exception\StoreUnavailable If the store gave no answer.
     */
    public function extend(string $key, string $lease): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Gives a lease back.
     *
     * @param string $key as for acquire()
     * @param string $lease what acquire() returned
     *
     * @return bool false where its time was over before, or nobody has it
     *
     * @throws Exception\StoreUnavailable If the store gave no answer; the lease ends by itself then.
     */
    public function release(string $key, string $lease): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * How many leases are left, taking none.
     *
     * @param string $key as for acquire()
     *
     * @return Decision allowed where a lease is left; `remaining` of `limit` are, and where none is, `retryAfter` is how long
     *     it is at most until one is
     *
     * @throws Exception\StoreUnavailable If the store gave no answer.
     */
    public function peek(string $key): Decision
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes a lease, calls `$work`, and gives the lease back: also where the work throws, exits, or is ended by a fatal
     * error.
     *
     * Where the store gives no answer to the release, the lease ends by itself.
     *
     * @param string $key as for acquire()
     * @param callable(string): mixed $work is given the lease's text, with which it can extend the lease
     * @param float $maxWait as for acquire()
     *
     * @return mixed what the work returned
     *
     * @throws Exception\LimitExceeded If all leases are still taken, with the decision; the work is not called then.
     * @throws Exception\InvalidArgument As for acquire().
     * @throws Exception\StoreUnavailable As for acquire().
     */
    public function run(string $key, callable $work, float $maxWait = 0.0): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
