<?php

namespace RateLimit\Outbound;

/** A limit on everything that one identity sends to a host. */
final class GlobalLimit
{
    /**
     * @param int $limit Requests.
     * @param float $window In any so many seconds.
     * @param null|string|list<string> $exemptPaths Patterns, in which `*` stands for anything, of paths that are neither
     *     counted nor held back.
     *
     * @throws \RateLimit\Exception\InvalidPolicy If a number is out of range.
     */
    public function __construct(int $limit, float $window = 1.0, mixed $exemptPaths = null)
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
