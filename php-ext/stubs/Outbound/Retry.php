<?php

namespace RateLimit\Outbound;

/** Sleep, ask `resume()`, and send the request again. */
final class Retry
{
    /** In seconds. */
    public readonly float $delay;

    /** Which retry it will be, from 1. */
    public readonly int $attempt;

    /** To be handed to `resume()`: a {@see Ticket}. */
    public readonly mixed $ticket;

    /** What the response told about limits: an {@see Observation} or null. */
    public readonly mixed $observation;

    /** Whether it was the invalid request after which none is sent for a while. */
    public readonly bool $invalidLimitReached;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
