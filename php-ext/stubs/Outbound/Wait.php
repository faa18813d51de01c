<?php

namespace RateLimit\Outbound;

/** Sleep, then ask `resume()`. Nothing has been taken. */
final class Wait
{
    /** In seconds. */
    public readonly float $delay;

    /** What it waits for: `cooldown`, `learning`, `quota`, `limit`, `global`, `invalid_requests` or `store`. */
    public readonly string $reason;

    /** To be handed to `resume()`: a {@see Ticket}. */
    public readonly mixed $ticket;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
