--TEST--
ratelimit.store names the default store
--ENV--
RATELIMIT_STORE=
--INI--
ratelimit.store=nonsense
--FILE--
<?php
try {
    new TokenBucket();
} catch (RateLimit\Exception\InvalidStore $refusal) {
    echo get_class($refusal), "\n";
}
echo (new TokenBucket(redis: 'memory:'))->allow('k')['remaining'], "\n";
?>
--EXPECT--
RateLimit\Exception\InvalidStore
9
