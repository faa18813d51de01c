<?php

declare(strict_types=1);

namespace RateLimit\Symfony;

use Symfony\Component\RateLimiter\LimiterInterface;
use Symfony\Component\RateLimiter\RateLimiterFactoryInterface;

// Symfony has an interface for factories since 7.3; before that its factory is a final class.
if (interface_exists(RateLimiterFactoryInterface::class)) {
    /** What makes a limiter for a key. */
    interface FactoryInterface extends RateLimiterFactoryInterface
    {
    }
} else {
    /** What makes a limiter for a key. */
    interface FactoryInterface
    {
        /** The limiter of a key; without one all share one budget. */
        public function create(?string $key = null): LimiterInterface;
    }
}
