<?php

declare(strict_types=1);

namespace RateLimit\Symfony;

use RateLimit\Decision;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use Symfony\Component\RateLimiter\Exception\MaxWaitDurationExceededException;
use Symfony\Component\RateLimiter\Exception\ReserveNotSupportedException;
use Symfony\Component\RateLimiter\LimiterInterface;
use Symfony\Component\RateLimiter\RateLimit;
use Symfony\Component\RateLimiter\Reservation;

/**
 * A limiter and a key as Symfony's LimiterInterface.
 *
 *     $limiter = new LimiterAdapter(new Limiter(Policy::parse('100/m')), $request->getClientIp());
 *     $limiter->consume()->ensureAccepted();
 *
 * A call is one atomic step in the store, so no lock is needed. What the limiter throws while its store is away goes on
 * to the caller.
 */
final class LimiterAdapter implements LimiterInterface
{
    /** @param string|array<string, string> $key whose budget; an array gives each policy its own, by the policy's name */
    public function __construct(private readonly Limiter $limiter, private readonly string|array $key = '')
    {
    }

    /**
     * Takes tokens if they are there; with 0 says what is there.
     *
     * @throws \InvalidArgumentException when there are never so many
     */
    public function consume(int $tokens = 1): RateLimit
    {
        if ($tokens === 0) {
            $decision = $this->limiter->peek($this->key);

            return self::rateLimit($decision, $decision->allowed ? 0.0 : $decision->retryAfter, true);
        }
        $decision = self::possible($this->limiter->allow($this->key, $tokens), $tokens);

        return self::rateLimit($decision, $decision->retryAfter, $decision->allowed);
    }

    /**
     * Takes tokens now for a start at a later time. Wait for it, or the tokens are taken for nothing.
     *
     * @throws MaxWaitDurationExceededException when the start is more than $maxTime seconds away; nothing is taken then
     * @throws ReserveNotSupportedException when a policy of the limiter counts in windows, which hand out no slots
     * @throws \InvalidArgumentException when there are never so many
     */
    public function reserve(int $tokens = 1, ?float $maxTime = null): Reservation
    {
        if ($tokens === 0) {
            return new Reservation(microtime(true), $this->consume(0));
        }
        $maxTime = $maxTime === null ? null : max(0.0, $maxTime);
        try {
            $decision = $this->limiter->reserve($this->key, $tokens, $maxTime ?? INF);
        } catch (InvalidArgument $windows) {
            throw new ReserveNotSupportedException(self::class, 0, $windows);
        }
        self::possible($decision, $tokens);
        if (!$decision->allowed) {
            // The decision says when a reservation would be accepted; Symfony tells when its tokens would be there.
            $wait = $maxTime + $decision->retryAfter;
            $text = sprintf('The wait of %.6F seconds is longer than the %.6F seconds that are accepted.', $wait, $maxTime);

            throw new MaxWaitDurationExceededException($text, self::rateLimit($decision, $wait, false));
        }

        return new Reservation(
            microtime(true) + $decision->delay,
            self::rateLimit($decision, $decision->delay, $decision->delay <= 0.0),
        );
    }

    /** Forgets what the key has used. */
    public function reset(): void
    {
        $this->limiter->reset($this->key);
    }

    private static function possible(Decision $decision, int $tokens): Decision
    {
        if ($decision->retryAfter === INF) {
            throw new \InvalidArgumentException("Cannot take more tokens ($tokens) than the rate limiter has at most ({$decision->limit}).");
        }

        return $decision;
    }

    /** The instant is rounded up to a microsecond, so that who waits until then has waited long enough. */
    private static function rateLimit(Decision $decision, float $wait, bool $accepted): RateLimit
    {
        $us = (int) ceil((microtime(true) + $wait) * 1e6);
        $instant = \DateTimeImmutable::createFromFormat('U.u', sprintf('%d.%06d', intdiv($us, 1_000_000), $us % 1_000_000));

        return new RateLimit($decision->remaining, $instant, $accepted, $decision->limit);
    }
}
