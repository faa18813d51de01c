<?php

namespace RateLimit\Outbound;

/** A limit on requests that an API calls invalid, beyond which it shuts the address out. */
final class InvalidRequestLimit
{
    /**
     * @param int $limit Responses.
     * @param float $window In about so many seconds.
     * @param null|list<int> $statusCodes Those that count; null is 401, 403 and 429.
     * @param null|string|list<string> $ignoredScopes Scopes that do not count; null is `shared`.
     *
     * @throws \RateLimit\Exception\InvalidPolicy If a number is out of range.
     */
    public function __construct(
        int $limit = 10000,
        float $window = 600.0,
        mixed $statusCodes = null,
        mixed $ignoredScopes = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
