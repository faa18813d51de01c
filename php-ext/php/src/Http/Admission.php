<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\Log\LoggerInterface;
use RateLimit\Decision;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;

/** The decision on one request, and the charge that can still be set right. */
final class Admission
{
    /** @param string|array<string, string> $key */
    public function __construct(
        private readonly Limiter $limiter,
        private readonly string|array $key,
        private readonly int $cost,
        private Decision $decision,
        private readonly ?LoggerInterface $logger = null,
    ) {
    }

    /** What was decided, with the numbers after {@see settle()}. */
    public function decision(): Decision
    {
        return $this->decision;
    }

    /**
     * Gives back or takes the difference to what the request has cost after all, as far as it is there. The request has
     * been handled, so a store that is away changes nothing about the response.
     */
    public function settle(int $cost): void
    {
        if ($cost === $this->cost) {
            return;
        }
        try {
            if ($cost < $this->cost) {
                $this->limiter->refund($this->key, $this->cost - max(0, $cost));
            } else {
                $rest = $this->limiter->allow($this->key, $cost - $this->cost);
                if (!$rest->allowed && $rest->remaining > 0) {
                    $this->limiter->allow($this->key, $rest->remaining);
                }
            }
            $this->decision = $this->limiter->peek($this->key);
        } catch (StoreUnavailable $away) {
            $this->logger?->warning('The charge for a request could not be set right: the store is away ({kind}).', ['kind' => $away->kind]);
        }
    }

    /**
     * Header fields for the response of a request that was let through; it needs no `Retry-After`.
     *
     * @return array<string, string>
     */
    public function headers(string $style): array
    {
        return array_diff_key($this->decision->headers($style), ['Retry-After' => true]);
    }
}
