<?php

namespace RateLimit;

/**
 * Locks by key, in one store: at most one holder at a time.
 *
 * ```php
 * $lock = new Lock('redis://127.0.0.1:6379');
 * $report = $lock->run('report:7', 30.0, fn () => makeReport(7));   // WaitTooLong where somebody else is at it
 * ```
 *
 * Or by hand, also where another process or another language is to let it go:
 *
 * ```php
 * $owner = $lock->acquire('report:7', 30.0, maxWait: 5.0);
 * if ($owner !== null) {
 *     try {
 *         makeReport(7);
 *     } finally {
 *         $lock->release('report:7', $owner);
 *     }
 * }
 * ```
 *
 * A lock ends by itself after `$ttl` seconds, so that an owner that dies blocks nobody for longer; an owner that needs
 * longer extends it. On Redis it is as safe as that one server: a failover may lose it. Nothing keeps an owner whose time
 * is over from going on.
 *
 * A key is any bytes; an int is taken as its digits.
 */
final class Lock
{
    /**
     * Asks the store nothing.
     *
     * @param null|string|Store|\Redis|\RedisCluster|\RedisSentinel|\Predis\ClientInterface $store as for
     *     {@see Limiter::__construct()}
     *
     * @throws Exception\InvalidStore As for {@see Limiter::__construct()}.
     */
    public function __construct(mixed $store = null)
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes a lock, sleeping while somebody else holds it.
     *
     * Those who wait are in no queue: of several, the one that tries first after a release is the next. Signal handlers run
     * during the sleep (with `pcntl_async_signals(true)`); an exception in one ends the wait, and nothing is held then.
     *
     * @param string $key what is locked
     * @param float $ttl seconds until it ends by itself, from 0.001
     * @param float $maxWait seconds; 0.0 is one try, INF as long as it takes
     *
     * @return null|string the owner's text, by which it is extended and released, in any process and language; null where
     *     somebody else still holds it
     *
     * @throws Exception\InvalidArgument If `$ttl` is out of range, or `$maxWait` negative or NAN; the store is not asked then.
     * @throws Exception\StoreUnavailable If the store gave no answer; the lock may be taken then, until its time is over.
     */
    public function acquire(string $key, float $ttl, float $maxWait = 0.0): ?string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Makes a lock that is held end `$ttl` seconds from now.
     *
     * @param string $key as for acquire()
     * @param string $owner what acquire() returned
     * @param float $ttl seconds, from 0.001
     *
     * @return bool false where it is not, or not any more, this owner's
     *
     * @throws Exception\InvalidArgument If `$ttl` is out of range.
     * @throws Exception\StoreUnavailable If the store gave no answer.
     */
    public function extend(string $key, string $owner, float $ttl): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Lets a lock go.
     *
     * @param string $key as for acquire()
     * @param string $owner what acquire() returned
     *
     * @return bool false where it was not, or not any more, this owner's: what it was to protect may have been done by two
     *     at once
     *
     * @throws Exception\StoreUnavailable If the store gave no answer; the lock ends by itself then.
     */
    public function release(string $key, string $owner): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Whether anybody holds a lock. The answer may be out of date when it arrives.
     *
     * @param string $key as for acquire()
     *
     * @throws Exception\StoreUnavailable If the store gave no answer.
     */
    public function isHeld(string $key): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes a lock, calls `$work`, and releases the lock: also where the work throws, exits, or is ended by a fatal error.
     *
     * Where the store gives no answer to the release, the lock ends by itself.
     *
     * @param string $key as for acquire()
     * @param float $ttl as for acquire()
     * @param callable(string): mixed $work is given the owner's text, with which it can extend the lock
     * @param float $maxWait as for acquire()
     *
     * @return mixed what the work returned
     *
     * @throws Exception\WaitTooLong If somebody else still holds the lock; the work is not called then.
     * @throws Exception\InvalidArgument As for acquire().
     * @throws Exception\StoreUnavailable As for acquire().
     */
    public function run(string $key, float $ttl, callable $work, float $maxWait = 0.0): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
