--TEST--
phpinfo() shows the default store without its password
--INI--
ratelimit.store="redis://app:hunter2@cache:6379/3?timeout=0.1&password=hunter2"
--FILE--
<?php
$shown = static function (): string {
    ob_start();
    (new ReflectionExtension('ratelimit'))->info();
    return preg_match('/^ratelimit\.store.*$/m', ob_get_clean(), $line) ? $line[0] : 'missing';
};
echo $shown(), "\n";
ini_set('ratelimit.store', 'redis+unix:///run/redis.sock?password=hunter2');
echo $shown(), "\n";
ini_set('ratelimit.store', 'memory:');
echo $shown(), "\n";
ini_set('ratelimit.store', '@://');
echo $shown(), "\n";
?>
--EXPECT--
ratelimit.store => redis://***@cache:6379/3?timeout=0.1&password=*** => redis://***@cache:6379/3?timeout=0.1&password=***
ratelimit.store => redis+unix:///run/redis.sock?password=*** => redis://***@cache:6379/3?timeout=0.1&password=***
ratelimit.store => memory: => redis://***@cache:6379/3?timeout=0.1&password=***
ratelimit.store => @:// => redis://***@cache:6379/3?timeout=0.1&password=***
