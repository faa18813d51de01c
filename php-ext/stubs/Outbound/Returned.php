<?php

namespace RateLimit\Outbound;

/** Hand the response to the caller. */
final class Returned
{
    /** What the response told about limits: an {@see Observation} or null. */
    public readonly mixed $observation;

    /** Whether it was the invalid request after which none is sent for a while. */
    public readonly bool $invalidLimitReached;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
