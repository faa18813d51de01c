<?php

declare(strict_types=1);

namespace RateLimit\Events;

use Psr\Log\LoggerInterface;
use Psr\Log\LogLevel;
use RateLimit\Clock;
use RateLimit\Decision;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;

/**
 * Lines of a PSR-3 log: a refused call is a notice, an answer of the failure rule a warning, a store that gives no answer
 * an error; an allowed call is a line only when it is given a level.
 *
 * ```php
 * (new Psr3Logger($logger))->listenTo($limiter);
 * ```
 *
 * Of each kind there is one line in `$interval` seconds at most, so that neither an attack nor an outage floods the log;
 * `left_out` of its context says how many there would have been since the line before. The rest of the context is what
 * {@see Limiter::onDecision()} tells. No key is in it. What is counted for that is counted by limiters, whose policies `log`
 * and `log-left-out` are among the metrics.
 */
final class Psr3Logger
{
    /** More lines than this are not counted. */
    private const MANY = 2147483647;

    private readonly Limiter $lines;
    private readonly Limiter $leftOut;

    /**
     * @param float $interval seconds between two lines of a kind
     * @param null|string $allowed the level for calls that were let pass, such as `debug`; null: no line
     * @param null|string|Store $store where it is kept when the last line was: the default is memory of this worker, which
     *     outlasts a request; with `shared:` all workers of the host write one line together
     * @param null|Clock $clock for tests
     */
    public function __construct(
        private readonly LoggerInterface $logger,
        float $interval = 1.0,
        private readonly ?string $allowed = null,
        null|string|Store $store = 'memory:?max_keys=1024',
        ?Clock $clock = null,
    ) {
        // What cannot be kept must not keep anybody from logging.
        $this->lines = new Limiter(Policy::fixedWindow(1, $interval, name: 'log'), $store, onError: 'open', clock: $clock);
        $counted = Policy::fixedWindow(self::MANY, 86400.0, name: 'log-left-out');
        $this->leftOut = new Limiter($counted, $store, onError: 'open', clock: $clock);
    }

    /** Writes lines about a limiter from now on. */
    public function listenTo(Limiter $limiter): void
    {
        $limiter->onDecision(fn (Decision $decision, array $context) => $this->decided($decision, $context));
        $limiter->onStoreError(fn (StoreUnavailable $error, array $context) => $this->failed($context));
    }

    /** @param array<string, mixed> $context */
    private function decided(Decision $decision, array $context): void
    {
        match (true) {
            $decision->degraded => $this->log(
                LogLevel::WARNING,
                'degraded',
                'the store is away; the failure rule ({source}) answers for policy {policy}',
                $context,
            ),
            !$decision->allowed => $this->log(LogLevel::NOTICE, 'denied', 'policy {policy} refuses {verb} of {key}', $context),
            $this->allowed !== null => $this->log($this->allowed, 'allowed', 'policy {policy} lets {verb} of {key} pass', $context),
            default => null,
        };
    }

    /** @param array<string, mixed> $context */
    private function failed(array $context): void
    {
        $this->log(LogLevel::ERROR, 'error', 'the store of policy {policy} gave no usable answer: {message}', $context);
    }

    /** @param array<string, mixed> $context */
    private function log(string $level, string $kind, string $line, array $context): void
    {
        if (!$this->lines->allow($kind)->allowed) {
            $this->leftOut->allow($kind);

            return;
        }
        $counted = $this->leftOut->peek($kind);
        $leftOut = $counted->degraded ? 0 : self::MANY - $counted->remaining;
        if ($leftOut > 0) {
            $this->leftOut->reset($kind);
            $line .= ' ({left_out} more like it)';
        }
        $this->logger->log($level, $line, $context + ['left_out' => $leftOut]);
    }
}
