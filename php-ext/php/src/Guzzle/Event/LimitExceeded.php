<?php

declare(strict_types=1);

namespace RateLimit\Guzzle\Event;


/** A request was given up; it might pass in `$retryAfter` seconds. */
final class LimitExceeded
{
    /**
     * @param string $route Where the request goes, as logs may show it: `GET api.example.com /users/:id`.
     */
    public function __construct(
        public readonly string $route,
        public readonly float $retryAfter,
        public readonly bool $global,
    ) {
    }
}
