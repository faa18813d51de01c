--TEST--
Loading the extension twice is a warning of PHP and nothing worse
--FILE--
<?php
$command = [PHP_BINARY, '-n', '-d', 'extension=' . getenv('RATELIMIT_SO'), '-d', 'extension=' . getenv('RATELIMIT_SO'),
    '-r', 'echo (new TokenBucket)->allow("k")["remaining"], "\n";'];
$process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
echo trim(stream_get_contents($pipes[1])), "\n";
var_dump(proc_close($process));
?>
--EXPECTREGEX--
(Warning: Module "ratelimit" is already loaded in Unknown on line 0\s+)?9
int\(0\)
