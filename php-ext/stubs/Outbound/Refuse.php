<?php

namespace RateLimit\Outbound;

/** Do not send the request: the wait would be longer than the longest that is accepted. Nothing has been taken. */
final class Refuse
{
    /** The wait that it would have been, in seconds. */
    public readonly float $delay;

    /** What it would have waited for. */
    public readonly string $reason;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
