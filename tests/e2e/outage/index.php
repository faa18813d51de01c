<?php

// One request of a web application that limits its callers, and says how the call has gone: the worker, when it began and
// how long it took in µs by the system's steady clock, whether the breaker was open before, and where the answer is from.

if ($_SERVER['REQUEST_URI'] === '/metrics') {
    header('Content-Type: text/plain; version=0.0.4');
    echo RateLimit\metrics();
    exit;
}
$store = RateLimit\Store::open($_GET['store']);
$policy = RateLimit\Policy::slidingWindowCounter((int) $_GET['limit'], 3600.0, name: $_GET['policy']);
$limiter = new RateLimit\Limiter($policy, $store, onError: $_GET['rule']);
$breaker = $store->breaker();
$began = hrtime(true);
try {
    $decision = $limiter->allow('client:' . random_int(1, 4));
    [$source, $status] = [$decision->source, $decision->allowed ? 200 : ($decision->source === 'fail_closed' ? 503 : 429)];
} catch (RateLimit\Exception\StoreUnavailable $exception) {
    [$source, $status] = [$exception->kind, 500];
}
$took = hrtime(true) - $began;
http_response_code($status);
header(sprintf('X-Call: %d %d %d %s %s', getmypid(), $began / 1000, $took / 1000, $breaker, $source));
