<?php

declare(strict_types=1);

namespace RateLimit\Guzzle\Event;


/** A request waits before it is sent: `$delay` seconds. */
final class RequestDelayed
{
    /**
     * @param string $route Where the request goes, as logs may show it: `GET api.example.com /users/:id`.
     */
    public function __construct(
        public readonly string $route,
        public readonly float $delay,
        public readonly string $reason,
    ) {
    }
}
