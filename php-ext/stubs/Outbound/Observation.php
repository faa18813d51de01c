<?php

namespace RateLimit\Outbound;

/** What one response told about a remote API's limits. Times are in seconds; what the response did not say is null. */
final class Observation
{
    /** Units per window, of the quota that runs out first: int, float or null. */
    public readonly mixed $limit;

    /** Units left: int, null, or float for APIs that count in fractions. */
    public readonly mixed $remaining;

    /** Until the quota is whole again: float or null. */
    public readonly mixed $resetAfter;

    /** The instant of the reset, in seconds since 1970: float or null. */
    public readonly mixed $resetAt;

    /** What `Retry-After`, or what the API has in its place, asks for: float or null. */
    public readonly mixed $retryAfter;

    /** What the API counts the request under: string or null. */
    public readonly mixed $bucket;

    /** Which of the API's limits it is about, in the API's own words: string or null. */
    public readonly mixed $scope;

    /** Whether the request was turned away by a rate limit. */
    public readonly bool $rateLimited;

    /** Whether the limit is on everything that this identity sends. */
    public readonly bool $isGlobal;

    /** How long to wait before sending again: float, or null when it was not turned away, or when nothing says how long. */
    public readonly mixed $wait;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
