<?php

namespace RateLimit\Exception;

use RateLimit\Decision;

/**
 * A limit is used up, for code that reports a refusal as an exception. It carries the decision.
 *
 * ```php
 * $decision = $limiter->allow($key);
 * if (!$decision->allowed) {
 *     throw new LimitExceeded($decision);
 * }
 * ```
 */
class LimitExceeded extends \RuntimeException implements RateLimitException
{
    /** The refusal. */
    public readonly Decision $decision;

    /**
     * @param string $message without one, a sentence that names the policy and the wait
     */
    public function __construct(
        Decision $decision,
        string $message = '',
        int $code = 0,
        ?\Throwable $previous = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
