<?php

namespace RateLimit;

/**
 * A policy bound to a store: what a program holds.
 *
 * ```php
 * $limiter = new Limiter(Policy::tokenBucket(10, 1.0, name: 'login'), 'redis://127.0.0.1:6379');
 * $decision = $limiter->allow("ip:{$address}");
 * if (!$decision->allowed) {
 *     header('Retry-After: ' . ceil($decision->retryAfter));
 * }
 * ```
 */
final class Limiter
{
    /**
     * Asks the store nothing, so one object per request costs no round trip.
     *
     * @param Policy|non-empty-list<Policy> $policies one policy, or a list of one
     * @param null|string|Store|\Redis|\Predis\ClientInterface $store where the state is kept: null is the default store
     *     (environment variable `RATELIMIT_STORE`, else the setting `ratelimit.store`, else `memory:`); a string is a
     *     DSN; of a client object only the place it connects to is used, over a connection of our own
     * @param 'throw'|'open'|'closed'|'local' $onError what to answer when the store does not: throw
     *     {@see Exception\StoreUnavailable}, let the call pass, refuse it, or let this worker's memory decide. Such
     *     decisions are `degraded`
     * @param int $share with 'local': this worker gets the limit divided by this, at least one unit
     * @param bool $hashKeys whether every key is hashed, so that no raw identity reaches the store
     * @param null|string $secret the secret of the key hash (HMAC-SHA-256); without one a hashed address can be found
     *     by trying all of them
     * @param null|Clock $clock for tests: instead of the store's own clock
     *
     * @throws Exception\InvalidPolicy If the list is empty or has more than one policy.
     * @throws Exception\InvalidStore If `$store` is none of the above, or a client that is not connected.
     * @throws Exception\InvalidArgument If `$onError` or `$share` is out of range.
     */
    public function __construct(
        Policy|array $policies,
        mixed $store = null,
        string $onError = 'throw',
        int $share = 1,
        bool $hashKeys = false,
        ?string $secret = null,
        ?Clock $clock = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes `$cost` units of the key's budget, if they are there. A refused call takes nothing.
     *
     * @param string $key whose budget: any bytes; an int is taken as its digits
     * @param int $cost 1 to 2147483647; above the limit it is refused with a `retryAfter` of INF
     *
     * @throws Exception\InvalidCost If `$cost` is out of range or not whole; the store is not asked then.
     * @throws Exception\StoreUnavailable If the store gave no answer and `$onError` is 'throw'.
     */
    public function allow(string $key, int $cost = 1): Decision
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What {@see allow()} would answer, without taking anything.
     *
     * @throws Exception\InvalidCost As for allow().
     * @throws Exception\StoreUnavailable As for allow().
     */
    public function peek(string $key, int $cost = 1): Decision
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Forgets what the key has used: its budget is whole again.
     *
     * @throws Exception\StoreUnavailable If the store did not answer, whatever `$onError` says.
     */
    public function reset(string $key): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
