<?php

declare(strict_types=1);

namespace RateLimit\Http;

/** The event that a request did not say who is calling; dispatched for the first such request of a middleware. */
final class IdentityMissing
{
    /** @param string $rule what is done with such requests: reject, skip, shared or throw */
    public function __construct(public readonly string $rule)
    {
    }
}
