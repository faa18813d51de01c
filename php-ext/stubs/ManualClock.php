<?php

namespace RateLimit;

/**
 * A clock that moves only when told to, so that tests never sleep.
 *
 * ```php
 * $clock = new ManualClock();
 * $limiter = new Limiter(Policy::tokenBucket(1, 1.0, 10.0), Store::memory(), clock: $clock);
 * $limiter->allow('job');           // passes
 * $limiter->allow('job');           // refused, retryAfter 10.0
 * $clock->advance(10.0);
 * $limiter->allow('job');           // passes
 * ```
 */
final class ManualClock implements Clock
{
    /**
     * @param float $now seconds since 1970
     *
     * @throws Exception\InvalidArgument If it is negative or not finite.
     */
    public function __construct(float $now = 1700000000.0)
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Where the clock stands, in seconds since 1970.
     */
    public function now(): float
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Moves the clock by `$seconds`; a negative number moves it back.
     *
     * @throws Exception\InvalidArgument If it is not finite.
     */
    public function advance(float $seconds): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
