<?php

declare(strict_types=1);

namespace RateLimit\Laravel;

use RateLimit\Limiter;

/** What limits one request. */
final class Limitation
{
    /**
     * @param string|array<string, string>|null $key whose budget; null where nobody can tell
     * @param list<\Illuminate\Cache\RateLimiting\Limit> $limits of `RateLimiter::for()`, one for each policy
     */
    public function __construct(
        public readonly Limiter $limiter,
        public readonly string|array|null $key,
        public readonly array $limits = [],
    ) {
    }
}
