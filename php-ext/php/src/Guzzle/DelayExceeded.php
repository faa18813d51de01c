<?php

declare(strict_types=1);

namespace RateLimit\Guzzle;

/** The wait would be longer than the longest that is accepted; {@see getRetryAfter()} is that wait. */
final class DelayExceeded extends RateLimitExceeded
{
}
