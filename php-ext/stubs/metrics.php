<?php

namespace RateLimit;

/**
 * All metrics as Prometheus text: calls let pass and refused by policy and source, errors of the store by kind, how long
 * servers took to answer, and how the stores are. No key is in it.
 *
 * Under php-fpm the counters are the sum over all workers of the master; how the stores are is said by the worker that
 * answers.
 *
 * ```php
 * header('Content-Type: text/plain; version=0.0.4');
 * echo RateLimit\metrics();
 * ```
 */
function metrics(): string
{
    throw new \LogicException('the extension ratelimit is not loaded');
}
