<?php

namespace RateLimit;

/**
 * How much is allowed: an algorithm with its numbers and a name. Immutable.
 *
 * The name is part of the stored key, so policies with different names never share a budget, and it is what a decision
 * or a header calls the policy.
 */
final class Policy
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
}
