--TEST--
phpinfo() shows version, stores, open connections, scripts and settings
--INI--
ratelimit.store="memory:?max_keys=5"
--FILE--
<?php
(new ReflectionExtension('ratelimit'))->info();
?>
--EXPECTF--

ratelimit

ratelimit => enabled
Version => %d.%d.%d
Stores => memory, shared, redis, sentinel, cluster
Open connections => 0

Script => SHA-1
bucket => %r[0-9a-f]{40}%r
fixed_window => %r[0-9a-f]{40}%r
sliding_window_counter => %r[0-9a-f]{40}%r
sliding_window_log => %r[0-9a-f]{40}%r
learnt => %r[0-9a-f]{40}%r
several => %r[0-9a-f]{40}%r
several_learnt => %r[0-9a-f]{40}%r
lock => %r[0-9a-f]{40}%r
in_flight => %r[0-9a-f]{40}%r

Directive => Local Value => Master Value
ratelimit.store => memory:?max_keys=5 => memory:?max_keys=5
ratelimit.global_token_bucket => 1 => 1
