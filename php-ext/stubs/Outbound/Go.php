<?php

namespace RateLimit\Outbound;

/** Send the request. */
final class Go
{
    /** To be handed to `after()`: a {@see Ticket}. */
    public readonly mixed $ticket;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
