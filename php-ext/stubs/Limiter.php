<?php

namespace RateLimit;

/**
 * One policy or several, bound to a store: what a program holds.
 *
 * ```php
 * $limiter = new Limiter(Policy::tokenBucket(10, 1.0, name: 'login'), 'redis://127.0.0.1:6379');
 * $decision = $limiter->allow("ip:{$address}");
 * if (!$decision->allowed) {
 *     header('Retry-After: ' . ceil($decision->retryAfter));
 * }
 * ```
 *
 * Several policies are charged all or none, in one atomic step and one round trip:
 *
 * ```php
 * $limiter = new Limiter([Policy::gcra(10, 1.0, name: 'client'), Policy::fixedWindow(1000, 60.0, name: 'everybody')]);
 * $decision = $limiter->allow(['client' => "ip:{$address}", 'everybody' => 'all']);
 * $decision->policy;   // the one that ruled: 'client' or 'everybody'
 * ```
 *
 * A key is any bytes; an int is taken as its digits. One key is that of all policies; an array gives each policy its
 * own, by the policy's name, and has to name every policy. A cost is 1 to 2147483647; one above a policy's limit is
 * refused with a `retryAfter` of INF.
 */
final class Limiter
{
    /**
     * Asks the store nothing, so one object per request costs no round trip. (Only a `\RedisSentinel` is asked, for the
     * other sentinels.)
     *
     * @param Policy|non-empty-list<Policy> $policies one policy, or a list of up to 32 that differ in name, algorithm
     *     or window
     * @param null|string|Store|\Redis|\RedisCluster|\RedisSentinel|\Predis\ClientInterface $store where the state is
     *     kept: null is the default store (environment variable `RATELIMIT_STORE`, else the setting `ratelimit.store`, else
     *     `shared:`); a string is a DSN; of a client object only the place it connects to is used, over a connection of
     *     our own: see {@see Store::redis()}
     * @param 'throw'|'open'|'closed'|'local' $onError what to answer when the store does not: throw
     *     {@see Exception\StoreUnavailable}, let the call pass, refuse it, or let this host's shared store decide. Such
     *     decisions are `degraded`; a call may have a rule of its own
     * @param int $share with 'local': this worker gets the limit divided by this, at least one unit
     * @param bool $hashKeys whether every key is hashed, so that no raw identity reaches the store
     * @param null|string|non-empty-list<string> $secret the secret of the key hash (HMAC-SHA-256); without one a hashed
     *     address can be found by trying all of them. A list while one takes over from another: the new one first, then
     *     those that other workers may still have, 4 at most. A call is charged under each of them, all or nothing, so
     *     that workers with either share their limits; drop the old one when all workers have had both for as long as
     *     the longest window
     * @param null|Clock $clock for tests: instead of the store's own clock
     * @param int $lease for keys that are asked for very often: up to so many units at once are taken from Redis, and
     *     spent by all workers of this host without asking it. Never more passes than the policy allows; a call may be
     *     refused while another host has units left. One policy, a fixed window or a sliding window counter. 0: one
     *     round trip per call
     *
     * @throws Exception\InvalidPolicy If the list is empty or too long, or two policies of it are one budget.
     * @throws Exception\InvalidStore If `$store` is none of the above, or a client that is not connected.
     * @throws Exception\InvalidArgument If `$onError`, `$share` or `$lease` is out of range, `$secret` empty, or `$lease`
     *     does not go with the policies.
     */
    public function __construct(
        Policy|array $policies,
        mixed $store = null,
        string $onError = 'throw',
        int $share = 1,
        bool $hashKeys = false,
        array|string|null $secret = null,
        ?Clock $clock = null,
        int $lease = 0,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes `$cost` units of the key's budget, if they are there. A refused call takes nothing.
     *
     * @param string|array<string, string> $key whose budget; an array: policy name => key
     * @param int $cost units
     * @param null|string $token makes the call safe to be sent again: what a call with the same token on the same key
     *     took within the last minute is not taken again, and its decision is given again
     * @param null|'throw'|'open'|'closed'|'local' $onError what to answer when the store does not answer this call; null:
     *     what the limiter's `onError` says
     *
     * @throws Exception\InvalidCost If `$cost` is out of range or not whole; the store is not asked then.
     * @throws Exception\InvalidArgument If `$key` names a policy too few or too many, `$token` is empty, or `$onError` is
     *     none of the four.
     * @throws Exception\StoreUnavailable If the store gave no answer and the rule is 'throw'.
     */
    public function allow(string|array $key, int $cost = 1, ?string $token = null, ?string $onError = null): Decision
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * {@see allow()} for many calls, in order, in as few round trips as the store allows: one per server.
     *
     * ```php
     * [$first, $second] = $limiter->allowMany([['user:1', 1], ['user:2', 5]]);
     * ```
     *
     * Each decision stands alone: one that is refused changes nothing for the others. A map of keys and costs is not taken,
     * since PHP makes numbers of keys that look like some.
     *
     * @param list<array{0: string|array<string, string>, 1?: int}> $calls pairs of a key and a cost, each as for allow();
     *     the cost may be left out
     * @param null|'throw'|'open'|'closed'|'local' $onError as for allow(), for all of them
     *
     * @return list<Decision> one for each call, in order
     *
     * @throws Exception\InvalidCost As for allow(), with the index of the pair; nothing is sent then, for no call.
     * @throws Exception\InvalidArgument As for allow(), with the index of the pair; if `$calls` is no list of pairs; if
     *     the keys that a call names for its policies are on different nodes of a cluster.
     * @throws Exception\StoreUnavailable If the store gave no answer for some of the calls and `$onError` is 'throw'; its
     *     `decisions` are those of the others.
     */
    public function allowMany(array $calls, ?string $onError = null): array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What {@see allow()} would answer, without taking anything.
     *
     * @param string|array<string, string> $key as for allow()
     * @param int $cost units
     * @param null|'throw'|'open'|'closed'|'local' $onError as for allow()
     *
     * @throws Exception\InvalidCost As for allow().
     * @throws Exception\InvalidArgument As for allow().
     * @throws Exception\StoreUnavailable As for allow().
     */
    public function peek(string|array $key, int $cost = 1, ?string $onError = null): Decision
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes `$cost` units now, ahead of time where they are not there yet: start after `$decision->delay` seconds.
     *
     * ```php
     * $decision = $limiter->reserve('reports', maxWait: 30.0);
     * $decision->allowed && $queue->later($decision->delay, $job);
     * ```
     *
     * Token bucket and GCRA go into debt; a leaky bucket is a queue. A window hands out nothing ahead of time:
     * {@see wait()} is for it.
     *
     * @param string|array<string, string> $key as for allow()
     * @param int $cost units
     * @param float $maxWait seconds; where the delay would be longer the call is refused and takes nothing
     * @param null|string $token as for allow()
     * @param null|'throw'|'open'|'closed'|'local' $onError as for allow()
     *
     * @throws Exception\InvalidCost As for allow().
     * @throws Exception\InvalidArgument As for allow(); if `$maxWait` is negative or NAN; if a policy is a window.
     * @throws Exception\StoreUnavailable As for allow().
     */
    public function reserve(
        string|array $key,
        int $cost = 1,
        float $maxWait = INF,
        ?string $token = null,
        ?string $onError = null,
    ): Decision {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes `$cost` units, sleeping until they are there.
     *
     * It sleeps a little longer than it has to, at most 0.1 s, and differently each time, so that those who wait do not
     * all wake at once. With a {@see ManualClock} nobody sleeps, and the clock is moved on instead. Signal handlers run
     * during the sleep (with `pcntl_async_signals(true)`); an exception in one ends the wait, as do an `exit`, a fatal error
     * and the time limit, and a slot that was reserved by then is given back.
     *
     * @param string|array<string, string> $key as for allow()
     * @param int $cost units
     * @param float $maxWait seconds that the caller is ready to wait
     * @param null|string $token as for allow()
     * @param null|'throw'|'open'|'closed'|'local' $onError as for allow()
     *
     * @return Decision an allowed one; its `delay` is what was waited for a slot
     *
     * @throws Exception\WaitTooLong If the wait would be longer, or the cost can never pass: at once, taking nothing.
     * @throws Exception\InvalidCost As for allow().
     * @throws Exception\InvalidArgument As for allow(); if `$maxWait` is negative or NAN.
     * @throws Exception\StoreUnavailable As for allow().
     */
    public function wait(
        string|array $key,
        int $cost = 1,
        float $maxWait = INF,
        ?string $token = null,
        ?string $onError = null,
    ): Decision {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Gives `$cost` units back, for work that was not done after all: at most what was taken, never above the limit.
     *
     * @param string|array<string, string> $key as for allow()
     * @param int $cost units
     * @param null|string $token as for allow(), and remembered apart from its tokens: a call and its refund may have the
     *     same one
     * @param null|'throw'|'open'|'closed'|'local' $onError as for allow()
     *
     * @throws Exception\InvalidCost As for allow().
     * @throws Exception\InvalidArgument As for allow().
     * @throws Exception\StoreUnavailable As for allow(); where the rule is open or closed, the refund is dropped
     *     instead.
     */
    public function refund(string|array $key, int $cost = 1, ?string $token = null, ?string $onError = null): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Forgets what the key has used: its budget is whole again.
     *
     * @param string|array<string, string> $key as for allow()
     *
     * @throws Exception\InvalidArgument As for allow().
     * @throws Exception\StoreUnavailable If the store did not answer, whatever `$onError` says.
     */
    public function reset(string|array $key): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Calls `$listener` for each decision from now on, after those that were added before.
     *
     * ```php
     * $limiter->onDecision(static function (Decision $decision, array $context): void {
     *     $decision->allowed || error_log("{$context['policy']} refuses {$context['key']}");
     * });
     * ```
     *
     * It is called when the call is over, before it returns. What it throws becomes a warning (or a line of the error log
     * where the application makes exceptions of warnings), and the call goes on. It may ask the same limiter: of what it
     * asks itself, nothing is told.
     *
     * The context has `verb` (allow, peek, reserve, refund; a wait is told as what it asks), `policy` (the one that ruled),
     * `key` (16 characters of the key's hash, keyed with the `secret` where there is one; never the key), `cost`, `store`
     * (its kind), `duration` (seconds), `allowed`, `limit`, `remaining`, `retry_after` (null when it can never pass),
     * `reset_after`, `delay`, `source` and `degraded`.
     *
     * @param callable(Decision, array<string, mixed>): mixed $listener
     */
    public function onDecision(callable $listener): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Calls `$listener` each time the store gives no answer, from now on; {@see onDecision()} hears of what the failure rule
     * makes of it. What is said there goes for this, too.
     *
     * The context has `verb` (also reset), `policy` (of several the first), `key`, `cost`, `store`, `duration`, `kind`
     * (timeout, refused and so on) and `message`.
     *
     * @param callable(Exception\StoreUnavailable, array<string, mixed>): mixed $listener the exception is not thrown
     */
    public function onStoreError(callable $listener): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Gives back what this process has leased and nobody has spent, of all keys: at the end of a program, or before a
     * pause. Other processes of this host lease anew. Without leases it does nothing.
     *
     * @throws Exception\StoreUnavailable If the store did not answer; what was on its way is lost until its window ends.
     */
    public function returnLeases(): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
