--TEST--
The extension loads, says its version and depends on nothing but PHP
--FILE--
<?php
var_dump(extension_loaded('ratelimit'));
var_dump(preg_match('/^\d+\.\d+\.\d+$/', phpversion('ratelimit')));
var_dump((new ReflectionExtension('ratelimit'))->getDependencies());
foreach ((new ReflectionExtension('ratelimit'))->getClassNames() as $class) {
    echo $class, "\n";
}
?>
--EXPECT--
bool(true)
int(1)
array(0) {
}
RateLimit\Exception\RateLimitException
RateLimit\Exception\InvalidArgument
RateLimit\Exception\InvalidPolicy
RateLimit\Exception\InvalidCost
RateLimit\Exception\InvalidStore
RateLimit\Exception\StoreUnavailable
RateLimit\Exception\LimitExceeded
RateLimit\Exception\WaitTooLong
RateLimit\Clock
RateLimit\ManualClock
RateLimit\Policy
RateLimit\Store
RateLimit\Decision
RateLimit\ClientIp
RateLimit\Limiter
RateLimit\Lock
RateLimit\Concurrency
RateLimit\Outbound\Observation
RateLimit\Outbound\BucketState
RateLimit\Outbound\Ticket
RateLimit\Outbound\Go
RateLimit\Outbound\Wait
RateLimit\Outbound\Refuse
RateLimit\Outbound\Returned
RateLimit\Outbound\Retry
RateLimit\Outbound\Fail
RateLimit\Outbound\Limit
RateLimit\Outbound\GlobalLimit
RateLimit\Outbound\InvalidRequestLimit
RateLimit\Outbound\Governor
TokenBucket
