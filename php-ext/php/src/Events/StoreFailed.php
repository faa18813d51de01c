<?php

declare(strict_types=1);

namespace RateLimit\Events;

use RateLimit\Exception\StoreUnavailable;

/** A store has given no usable answer. Unless the failure rule is `throw`, a {@see DecisionMade} follows. */
final class StoreFailed
{
    /**
     * @param StoreUnavailable $error what went wrong; it is not thrown
     * @param array<string, mixed> $context as {@see \RateLimit\Limiter::onStoreError()} has it: `verb`, `policy`, `key` (a
     *     part of its hash), `cost`, `store`, `duration`, `kind` and `message`
     */
    public function __construct(
        public readonly StoreUnavailable $error,
        public readonly array $context,
    ) {
    }
}
