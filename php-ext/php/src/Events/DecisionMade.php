<?php

declare(strict_types=1);

namespace RateLimit\Events;

use RateLimit\Decision;

/** A limiter has decided. */
final class DecisionMade
{
    /**
     * @param array<string, mixed> $context as {@see \RateLimit\Limiter::onDecision()} has it: `verb`, `policy`, `key` (a
     *     part of its hash), `cost`, `store`, `duration` and the numbers of the decision
     */
    public function __construct(
        public readonly Decision $decision,
        public readonly array $context,
    ) {
    }
}
