--TEST--
ratelimit.global_token_bucket=0 leaves the global name to the application
--INI--
ratelimit.global_token_bucket=0
--FILE--
<?php
var_dump(class_exists('TokenBucket'), class_exists('RateLimit\Limiter'));
eval('class TokenBucket {}');
echo get_class(new TokenBucket()), "\n";
?>
--EXPECT--
bool(false)
bool(true)
TokenBucket
