<?php

declare(strict_types=1);

namespace RateLimit\Guzzle\Event;


/** So many requests were invalid that none is sent for a while. */
final class InvalidRequestLimitReached
{
    /**
     * @param string $route Where the request goes, as logs may show it: `GET api.example.com /users/:id`.
     */
    public function __construct(
        public readonly string $route,
    ) {
    }
}
