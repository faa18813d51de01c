<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Log\LoggerInterface;
use RateLimit\ClientIp as Resolver;

/**
 * Who is calling, and what to do where a request does not say.
 *
 * Callers that cannot be told apart never share a budget by accident: what happens to them is chosen.
 */
final class Caller
{
    private readonly \Closure $key;
    private bool $reported = false;

    /**
     * @param KeyResolver|callable(object): (string|int|\Stringable|array<string, string|int|\Stringable|null>|null) $key
     *     whose budget a request spends; an array gives each policy its own key, by the policy's name
     * @param string $onMissingKey what to do when the key is null or '', or one of its parts is: `reject` refuses the
     *     request, `skip` lets it pass unlimited, `shared` lets all such requests share one budget, `throw` throws
     * @param ?LoggerInterface $logger hears of the first such request as a warning
     * @param ?EventDispatcherInterface $events hears of the first such request as an {@see IdentityMissing}
     * @throws \InvalidArgumentException when $onMissingKey is none of these
     */
    public function __construct(
        callable|KeyResolver $key,
        public readonly string $onMissingKey = 'reject',
        private readonly ?LoggerInterface $logger = null,
        private readonly ?EventDispatcherInterface $events = null,
    ) {
        if (!in_array($onMissingKey, ['reject', 'skip', 'shared', 'throw'], true)) {
            throw new \InvalidArgumentException("onMissingKey must be reject, skip, shared or throw, got \"$onMissingKey\"");
        }
        $this->key = $key instanceof KeyResolver ? $key->resolve(...) : $key(...);
    }

    /**
     * The key of the caller; null for a request that is not limited.
     *
     * @return string|array<string, string>|null
     * @throws Unidentified when the request does not say who is calling, and is not to pass
     */
    public function of(object $request): string|array|null
    {
        $given = ($this->key)($request);
        $key = is_array($given) ? array_map(self::text(...), $given) : self::text($given);
        if (is_array($key) ? $key !== [] && !in_array(null, $key, true) : $key !== null) {
            return $key;
        }
        $this->report();

        return match ($this->onMissingKey) {
            'skip' => null,
            'shared' => is_array($key) && $key !== []
                ? array_map(static fn (?string $part) => $part ?? Resolver::sharedKey(), $key)
                : Resolver::sharedKey(),
            default => throw new Unidentified(),
        };
    }

    private function report(): void
    {
        if (!$this->reported) {
            $this->reported = true;
            $this->logger?->warning('A request does not say who is calling; rule: {rule}.', ['rule' => $this->onMissingKey]);
            $this->events?->dispatch(new IdentityMissing($this->onMissingKey));
        }
    }

    private static function text(mixed $key): ?string
    {
        if ($key !== null && !is_string($key) && !is_int($key) && !$key instanceof \Stringable) {
            throw new \TypeError('key must give a string, an int, an array of them or null, got ' . get_debug_type($key));
        }

        return (string) $key === '' ? null : (string) $key;
    }
}
