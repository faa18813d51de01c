<?php

declare(strict_types=1);

namespace RateLimit\Guzzle\Event;


/** A request will be sent again in `$delay` seconds. */
final class RetryScheduled
{
    /**
     * @param string $route Where the request goes, as logs may show it: `GET api.example.com /users/:id`.
     */
    public function __construct(
        public readonly string $route,
        public readonly float $delay,
        public readonly int $attempt,
        public readonly int $status,
    ) {
    }
}
