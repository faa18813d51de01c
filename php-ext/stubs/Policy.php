<?php

namespace RateLimit;

/**
 * How much is allowed: an algorithm with its numbers and a name. Immutable.
 *
 * The name is part of the stored key, so policies with different names never share a budget, and it is what a decision
 * or a header calls the policy. It has 1 to 100 printable ASCII characters.
 *
 * | policy | lets through | at once |
 * |---|---|---|
 * | {@see tokenBucket()} | as many as tokens arrive | `$capacity` |
 * | {@see gcra()} | `$limit` per `$period`, evenly spaced | `$burst` |
 * | {@see leakyBucket()} | as many as leak; as a queue through `reserve()` | `$capacity`, in a queue one by one |
 * | {@see fixedWindow()} | `$limit` per window | `$limit`, around the edge of two windows twice that |
 * | {@see slidingWindowLog()} | `$limit` in any window, exactly; stores every unit | `$limit` |
 * | {@see slidingWindowCounter()} | about `$limit` in any window; stores two counters | `$limit` |
 *
 * Times are seconds, and no wait is longer than 71 years; limits, capacities and bursts are 1 to 2147483647. What is
 * out of range, or cannot be counted exactly together, is an {@see Exception\InvalidPolicy} that names the argument.
 */
final class Policy implements \Stringable
{
    /** What the policy is called. */
    public readonly string $name;

    /** The largest cost that can ever pass. */
    public readonly int $limit;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * A bucket of up to `$capacity` tokens that gains `$refillRate` tokens per `$refillInterval` seconds.
     *
     * ```php
     * Policy::tokenBucket(10, 1.0);                          // 10 at once, one more at the end of every second
     * Policy::tokenBucket(100, 100, 60, continuous: true);   // 100 at once, 100 a minute, spread evenly
     * ```
     *
     * @param int $capacity 1 to 2147483647
     * @param float $refillRate tokens, above 0; a fraction is kept as the exact ratio it was written as
     * @param float $refillInterval seconds, above 0
     * @param bool $continuous whether tokens trickle in all the time, instead of at the end of each interval
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function tokenBucket(
        int $capacity,
        float $refillRate,
        float $refillInterval = 1.0,
        bool $continuous = false,
        string $name = 'default',
    ): self {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * At most `$limit` units in each window of `$window` seconds.
     *
     * ```php
     * Policy::fixedWindow(100, 60);                    // the first hit opens a window of a minute
     * Policy::fixedWindow(100, 3600, aligned: true);   // from full hour to full hour
     * ```
     *
     * Windows that follow a calendar, such as days in Berlin, are made by {@see parse()}.
     *
     * @param int $limit 1 to 2147483647
     * @param float $window seconds, at least 0.001
     * @param bool $aligned whether windows stand at multiples of `$window` since 1970; else the first hit opens one
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function fixedWindow(int $limit, float $window, bool $aligned = false, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * At most `$limit` units in any `$window` seconds. Exact; it stores every unit that was taken, so memory grows with
     * the limit.
     *
     * @param int $limit 1 to 2147483647
     * @param float $window seconds, at least 0.001
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function slidingWindowLog(int $limit, float $window, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * About `$limit` units in any `$window` seconds: the previous window's count is weighed by how much of it is still
     * in sight.
     *
     * @param int $limit 1 to 2147483647
     * @param float $window seconds, at least 0.001
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function slidingWindowCounter(int $limit, float $window, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * A bucket that holds `$capacity` units and leaks `$leakRate` of them per second: what does not fit is refused.
     *
     * With {@see Limiter::reserve()} and {@see Limiter::wait()} it is a queue: each start waits until all units before
     * it have leaked out, and a full queue refuses.
     *
     * @param int $capacity 1 to 2147483647
     * @param float $leakRate units per second, above 0
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function leakyBucket(int $capacity, float $leakRate, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * `$limit` units per `$period` seconds, evenly spaced, of which `$burst` may come at once.
     *
     * ```php
     * Policy::gcra(10, 1.0);             // 10 a second, all 10 of them at once if need be
     * Policy::gcra(10, 1.0, burst: 1);   // one every tenth of a second
     * ```
     *
     * @param int $limit 1 to 2147483647
     * @param float $period seconds, above 0
     * @param null|int $burst units that may come at once after a pause; null is the limit
     * @param string $name 1 to 100 printable ASCII characters
     *
     * @throws Exception\InvalidPolicy If a number or the name is out of range, with its name and value.
     */
    public static function gcra(int $limit, float $period, ?int $burst = null, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Reads a policy from a text, such as a setting.
     *
     * | text | policy |
     * |---|---|
     * | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
     * | `100/h aligned` | fixed window at multiples of an hour |
     * | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
     * | `100/h sliding` | sliding window counter |
     * | `100/h log` | sliding window log |
     * | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
     * | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
     * | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
     * | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |
     *
     * Units of time are `us`, `ms`, `s`, `m`, `h`, `d` and `w`, or the words for them, after any number: `3/250ms`.
     *
     * @param string $name 1 to 100 printable ASCII characters; no part of the text
     *
     * @throws Exception\InvalidPolicy If the text has a fault, with the place; or a number in it is out of range.
     */
    public static function parse(string $text, string $name = 'default'): self
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * A text that {@see parse()} reads as the same policy. The name is no part of it.
     */
    public function __toString(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
