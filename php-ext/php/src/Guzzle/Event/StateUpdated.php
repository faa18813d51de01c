<?php

declare(strict_types=1);

namespace RateLimit\Guzzle\Event;

use RateLimit\Outbound\Observation;

/** A response told about limits. */
final class StateUpdated
{
    /**
     * @param string $route Where the request goes, as logs may show it: `GET api.example.com /users/:id`.
     */
    public function __construct(
        public readonly string $route,
        public readonly Observation $observation,
    ) {
    }
}
