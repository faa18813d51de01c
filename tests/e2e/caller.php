<?php

// Asks once for each key on standard input, and says for each "allowed", "denied" or "away" (the store gave no answer),
// what remains, and how many microseconds the call took.

declare(strict_types=1);

use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;

[, $dsn, $capacity] = $argv;
$limiter = new Limiter(Policy::tokenBucket((int) $capacity, 1.0, 86400.0), $dsn);
while (($key = fgets(STDIN)) !== false) {
    $started = hrtime(true);
    try {
        $decision = $limiter->allow(rtrim($key, "\n"));
        [$outcome, $remaining] = [$decision->allowed ? 'allowed' : 'denied', $decision->remaining];
    } catch (StoreUnavailable) {
        [$outcome, $remaining] = ['away', 0];
    }
    printf("%s %d %d\n", $outcome, $remaining, (hrtime(true) - $started) / 1000);
}
