<?php

namespace RateLimit\Exception;

/**
 * The store gave no usable answer.
 *
 * ```php
 * try {
 *     $decision = $limiter->allow($key);
 * } catch (StoreUnavailable $failure) {
 *     error_log("rate limiter: {$failure->kind}: {$failure->getMessage()}");
 * }
 * ```
 */
class StoreUnavailable extends \RuntimeException implements RateLimitException
{
    /**
     * Why: timeout, refused, readonly, loading, busy, noperm, oom, wrongtype, protocol or closed; empty where the
     * exception was not made by the extension.
     *
     * After timeout and closed the call may have been counted. It is never sent twice.
     */
    public string $kind = '';

    /**
     * After {@see \RateLimit\Limiter::allowMany()}: one entry per call, in order; null where there was no answer. Else
     * empty.
     *
     * @var list<null|\RateLimit\Decision>
     */
    public array $decisions = [];
}
