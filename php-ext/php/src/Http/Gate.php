<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\Log\LoggerInterface;
use RateLimit\Limiter;

/**
 * Asks a limiter before a request goes on, and lets the response say afterwards what the request really cost.
 *
 * What the middlewares of the frameworks share: it knows no framework.
 */
final class Gate
{
    private readonly Limiter|\Closure $limiter;
    private readonly ?\Closure $cost;
    private readonly ?\Closure $skip;
    private readonly ?\Closure $after;

    /**
     * @param Limiter|callable(object): ?Limiter $limiter one for all requests, or the one for a request; null lets it pass
     * @param ?callable(object): int $cost units that a request takes, at least 1; 1 without it
     * @param ?callable(object): bool $skip whether a request passes unlimited
     * @param ?callable(object, object): int $after what the request has cost after all, by its response and itself: 0 or
     *     more. It is charged before the request is handled, so that many at once cannot pass, and the difference is
     *     given back or taken afterwards; what an exception ends stays charged
     */
    public function __construct(
        Limiter|callable $limiter,
        private readonly Caller $caller,
        ?callable $cost = null,
        ?callable $skip = null,
        ?callable $after = null,
        private readonly ?LoggerInterface $logger = null,
    ) {
        $this->limiter = $limiter instanceof Limiter ? $limiter : $limiter(...);
        $this->cost = $cost === null ? null : $cost(...);
        $this->skip = $skip === null ? null : $skip(...);
        $this->after = $after === null ? null : $after(...);
    }

    /**
     * The decision on a request, with what can be done about it; null where it is not limited.
     *
     * @throws Unidentified when the request does not say who is calling, and is not to pass
     */
    public function ask(object $request): ?Admission
    {
        if ($this->skip !== null && ($this->skip)($request)) {
            return null;
        }
        $limiter = $this->limiter instanceof Limiter ? $this->limiter : ($this->limiter)($request);
        $key = $limiter === null ? null : $this->caller->of($request);
        if ($key === null) {
            return null;
        }
        $cost = $this->cost === null ? 1 : ($this->cost)($request);

        return new Admission($limiter, $key, $cost, $limiter->allow($key, $cost), $this->logger);
    }

    /** Charges what a response says that the request has cost. */
    public function settle(Admission $admission, object $response, object $request): void
    {
        if ($this->after !== null) {
            $admission->settle(($this->after)($response, $request));
        }
    }
}
