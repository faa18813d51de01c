<?php

namespace RateLimit;

/**
 * Where "now" comes from, when it is not the store's own clock: in tests and replays.
 */
interface Clock
{
    /**
     * Seconds since 1970, not negative, with a resolution of microseconds.
     *
     * It is asked before the store is; an exception in it reaches the caller, and nothing is taken.
     */
    public function now(): float;
}
