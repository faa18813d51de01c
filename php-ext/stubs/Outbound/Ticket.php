<?php

namespace RateLimit\Outbound;

/** A request on its way. Holds no credential and no URL. */
final class Ticket
{
    /** How often it has been sent again. */
    public readonly int $attempt;

    /** Whether the store gave no answer when it was last asked for the request, so that `onError` decided. */
    public readonly bool $degraded;

    /** Where it goes, as logs may show it: `GET api.example.com /users/:id`. */
    public readonly string $route;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
