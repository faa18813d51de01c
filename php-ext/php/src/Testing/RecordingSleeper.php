<?php

declare(strict_types=1);

namespace RateLimit\Testing;

use RateLimit\ManualClock;

/**
 * A sleeper for tests: records each sleep, and moves a clock instead of sleeping.
 *
 * ```php
 * $clock = new ManualClock();
 * $sleeper = new RecordingSleeper($clock);
 * $middleware = RateLimitMiddleware::github(store: Store::memory(), clock: $clock, sleeper: $sleeper);
 * // … $sleeper->sleeps === [60.0]
 * ```
 */
final class RecordingSleeper
{
    /** @var list<float> Every sleep, in seconds. */
    public array $sleeps = [];

    /** @param ManualClock|null $clock What is moved. */
    public function __construct(private readonly ?ManualClock $clock = null)
    {
    }

    /** Records a sleep of so many seconds, and moves the clock. */
    public function __invoke(float $seconds): void
    {
        $this->sleeps[] = $seconds;
        $this->clock?->advance($seconds);
    }

    /** The same under its name. */
    public function sleep(float $seconds): void
    {
        $this($seconds);
    }

    /** Seconds slept altogether. */
    public function total(): float
    {
        return array_sum($this->sleeps);
    }
}
