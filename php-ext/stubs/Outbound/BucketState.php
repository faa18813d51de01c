<?php

namespace RateLimit\Outbound;

/** What is known of a bucket. Times are in seconds; what is not known is null. */
final class BucketState
{
    /** Units per window: int or null. */
    public readonly mixed $limit;

    /** Units left: int or null. */
    public readonly mixed $remaining;

    /** Until it is whole again: float or null. */
    public readonly mixed $resetAfter;

    /** Until the next request may go; 0 when it may go now. */
    public readonly float $retryAfter;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
