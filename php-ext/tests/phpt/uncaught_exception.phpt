--TEST--
An uncaught exception names file, line and call
--FILE--
<?php
RateLimit\Policy::tokenBucket(capacity: 0, refillRate: 1.0);
?>
--EXPECTF--
Fatal error: Uncaught RateLimit\Exception\InvalidPolicy: capacity must be between 1 and 2147483647, got 0 in %suncaught_exception.php:2
Stack trace:
#0 %suncaught_exception.php(2): RateLimit\Policy::tokenBucket(0, 1.0)
#1 {main}
  thrown in %suncaught_exception.php on line 2
