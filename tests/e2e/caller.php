<?php

// Asks once for each key on standard input, and says "allowed remaining" for each.

declare(strict_types=1);

use RateLimit\Limiter;
use RateLimit\Policy;

$limiter = new Limiter(Policy::tokenBucket(100, 1.0, 86400.0), $argv[1]);
while (($key = fgets(STDIN)) !== false) {
    $decision = $limiter->allow(rtrim($key, "\n"));
    printf("%d %d\n", $decision->allowed, $decision->remaining);
}
