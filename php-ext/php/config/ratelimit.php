<?php

return [
    // Where the budgets live: a DSN such as redis://127.0.0.1:6379; null is the setting ratelimit.store of PHP.
    'store' => env('RATELIMIT_STORE'),

    // What to answer while the store is away: throw, open, closed or local.
    'on_error' => env('RATELIMIT_ON_ERROR', 'throw'),

    // Limiters by name, for the middleware `ratelimit:NAME`: a policy, or a list of them, which are charged all or
    // nothing. They count by the user who is logged in, else by the address. Those of RateLimiter::for() work, too.
    'limiters' => [
        'api' => '60/m',
    ],

    // The family of headers: ietf, draft-7, draft-3, x-ratelimit, x-ratelimit-epoch or none.
    'headers' => 'ietf',

    // The body of a refusal: problem, json or none.
    'body' => 'problem',

    // Proxies whose headers are believed: addresses, networks such as 10.0.0.0/8, or unix; and the header they write:
    // forwarded, x-forwarded-for, or auto for the one that is there.
    'trusted_proxies' => [],
    'forwarded_header' => 'auto',

    // How many leading bits of an IPv6 address make one caller.
    'ipv6_prefix' => 64,

    // What to do where a request does not say who is calling: reject, skip, shared or throw.
    'on_missing_key' => 'reject',

    // Keep keys out of the store as HMAC-SHA-256 with a secret.
    'hash_keys' => false,
    'secret' => null,
];
