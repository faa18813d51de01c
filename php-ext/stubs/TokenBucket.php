<?php

/**
 * The token bucket of redis.io's rate limiter guide: same constructor, same array.
 *
 * A bucket holds up to `$capacity` tokens. At the end of every `$refillInterval` seconds it gains `$refillRate` tokens;
 * each allowed call takes one.
 *
 * With the setting `ratelimit.global_token_bucket=0` this class does not exist, and the name is free for another one.
 *
 * ```php
 * $limiter = new TokenBucket(capacity: 10, refillRate: 1, refillInterval: 1.0, redis: 'redis://127.0.0.1:6379');
 * $result = $limiter->allow('user:42');   // ['allowed' => true, 'remaining' => 9.0]
 * ```
 *
 * {@see \RateLimit\Limiter} offers more: waits, headers, costs above one, a failure rule.
 */
final class TokenBucket
{
    /**
     * Asks the store nothing, so one object per request costs no round trip.
     *
     * @param int $capacity the most tokens the bucket holds, 1 to 2147483647
     * @param float $refillRate tokens gained per interval, above 0; 0.5 is kept as the exact ratio
     * @param float $refillInterval seconds, above 0
     * @param null|string|\RateLimit\Store|\Redis|\Predis\ClientInterface $redis where the tokens are kept: null is the
     *     default store (environment variable `RATELIMIT_STORE`, else the setting `ratelimit.store`, else `shared:`); a
     *     string is a DSN; of a client object only the place it connects to is used, over a connection of our own
     *
     * @throws \RateLimit\Exception\InvalidPolicy If a number is out of range, with its name and value.
     * @throws \RateLimit\Exception\InvalidStore If `$redis` is none of the above, or a client that is not connected.
     */
    public function __construct(
        int $capacity = 10,
        float $refillRate = 1.0,
        float $refillInterval = 1.0,
        mixed $redis = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Takes one token of the key's bucket, if there is one.
     *
     * @param string $key whose bucket: any bytes; an int is taken as its digits
     *
     * @return array{allowed: bool, remaining: float} whether the call may go ahead, and the whole tokens that are left
     *
     * @throws \RateLimit\Exception\StoreUnavailable If the store gave no answer in time; nothing is let through then.
     */
    public function allow(string $key): array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
