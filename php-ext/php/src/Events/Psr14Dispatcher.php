<?php

declare(strict_types=1);

namespace RateLimit\Events;

use Psr\EventDispatcher\EventDispatcherInterface;
use RateLimit\Decision;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;

/**
 * Decisions and failures of stores as events of PSR-14: {@see DecisionMade} and {@see StoreFailed}.
 *
 * ```php
 * (new Psr14Dispatcher($dispatcher))->listenTo($limiter);
 * ```
 *
 * What a listener throws becomes a warning, and the call that it hears of goes on.
 */
final class Psr14Dispatcher
{
    public function __construct(private readonly EventDispatcherInterface $dispatcher)
    {
    }

    /** Dispatches the events of a limiter from now on. */
    public function listenTo(Limiter $limiter): void
    {
        $dispatcher = $this->dispatcher;
        $limiter->onDecision(static function (Decision $decision, array $context) use ($dispatcher): void {
            $dispatcher->dispatch(new DecisionMade($decision, $context));
        });
        $limiter->onStoreError(static function (StoreUnavailable $error, array $context) use ($dispatcher): void {
            $dispatcher->dispatch(new StoreFailed($error, $context));
        });
    }
}
