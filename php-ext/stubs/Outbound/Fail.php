<?php

namespace RateLimit\Outbound;

/** Throw an exception: the request was refused, and sending it again is not allowed or would take too long. */
final class Fail
{
    /** When it might pass, in seconds from now. */
    public readonly float $retryAfter;

    /** Whether everything of this identity is refused. */
    public readonly bool $global;

    /** Whether the wait is longer than the longest that is accepted, and not the retries used up. */
    public readonly bool $tooLong;

    /** What the response told about limits: an {@see Observation} or null. */
    public readonly mixed $observation;

    /** Whether it was the invalid request after which none is sent for a while. */
    public readonly bool $invalidLimitReached;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
