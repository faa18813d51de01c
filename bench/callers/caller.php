<?php

// One decision after another from PHP.
//
//   caller.php WAY PORT CALLS     makes so many calls and ends: to be counted
//   caller.php WAY PORT           reads a number per line, makes so many calls, prints the nanoseconds they took
//
// Each way is a closure that makes so many calls, so that a call costs the loop and itself and nothing else.

declare(strict_types=1);

const KEY = 'user:42';
const CAPACITY = 1000000;

[, $way, $port] = $argv;

$script = fn (): string => file_get_contents(__DIR__ . '/../redis/token_bucket.lua');
$policy = fn (): RateLimit\Policy => RateLimit\Policy::tokenBucket(CAPACITY, 1.0, 1.0);
$dsn = "redis://127.0.0.1:$port";
$refused = fn () => throw new RuntimeException('a call did not pass');

/** Our limiter on a store. */
$limiter = function (string $store) use ($policy, $refused): Closure {
    $limiter = new RateLimit\Limiter($policy(), $store);

    return function (int $calls) use ($limiter, $refused): void {
        while ($calls-- > 0) {
            $limiter->allow(KEY)->allowed || $refused();
        }
    };
};

/** A limiter of Symfony's. */
$symfony = fn (Symfony\Component\RateLimiter\LimiterInterface $limiter): Closure
    => function (int $calls) use ($limiter, $refused): void {
        while ($calls-- > 0) {
            $limiter->consume()->isAccepted() || $refused();
        }
    };

$symfonyBucket = fn (Symfony\Component\RateLimiter\Storage\StorageInterface $storage)
    => new Symfony\Component\RateLimiter\Policy\TokenBucketLimiter(
        KEY,
        CAPACITY,
        Symfony\Component\RateLimiter\Policy\Rate::perSecond(1),
        $storage,
    );

$ways = [
    'limiter' => fn () => $limiter($dsn),

    'token_bucket' => function () use ($dsn, $refused): Closure {
        $bucket = new TokenBucket(CAPACITY, 1.0, 1.0, $dsn);

        return function (int $calls) use ($bucket, $refused): void {
            while ($calls-- > 0) {
                $bucket->allow(KEY)['allowed'] || $refused();
            }
        };
    },

    // The shortest way there is with this client: a connection that stays, and a hash computed once.
    'phpredis' => function () use ($port, $script, $refused): Closure {
        $redis = new Redis();
        $redis->pconnect('127.0.0.1', (int) $port);
        $sha = sha1($script());
        $redis->script('load', $script());

        return function (int $calls) use ($redis, $sha, $refused): void {
            while ($calls-- > 0) {
                $answer = $redis->evalSha($sha, [KEY, CAPACITY, 1.0, 1.0, microtime(true)], 1);
                $answer[0] === 1 || $refused();
            }
        };
    },

    'predis' => function () use ($port, $script, $refused): Closure {
        require_once 'Predis/autoload.php';
        $redis = new Predis\Client(['host' => '127.0.0.1', 'port' => (int) $port]);
        $sha = $redis->script('LOAD', $script());

        return function (int $calls) use ($redis, $sha, $refused): void {
            while ($calls-- > 0) {
                $answer = $redis->evalsha($sha, 1, KEY, CAPACITY, 1.0, 1.0, microtime(true));
                $answer[0] === 1 || $refused();
            }
        };
    },

    'symfony_redis' => function () use ($port, $symfony, $symfonyBucket): Closure {
        require_once 'Symfony/Component/RateLimiter/autoload.php';
        require_once 'Symfony/Component/Cache/autoload.php';
        $redis = new Redis();
        $redis->pconnect('127.0.0.1', (int) $port);
        $cache = new Symfony\Component\Cache\Adapter\RedisAdapter($redis);

        return $symfony($symfonyBucket(new Symfony\Component\RateLimiter\Storage\CacheStorage($cache)));
    },

    'limiter_memory' => fn () => $limiter('memory:'),

    // A file of this run, which scripts/bench removes.
    'limiter_shared' => fn () => $limiter("shared:/dev/shm/ratelimit-bench-{$port}?size=1MiB"),

    // A window counted by hand, with nothing around it.
    'apcu' => fn (): Closure => function (int $calls) use ($refused): void {
        while ($calls-- > 0) {
            $count = apcu_inc(KEY . ':' . intdiv(time(), 60), 1, $success, 60);
            $count <= 1000 * CAPACITY || $refused();
        }
    },

    'symfony_memory' => function () use ($symfony, $symfonyBucket): Closure {
        require_once 'Symfony/Component/RateLimiter/autoload.php';

        return $symfony($symfonyBucket(new Symfony\Component\RateLimiter\Storage\InMemoryStorage()));
    },

    'symfony_memory_window' => function () use ($symfony): Closure {
        require_once 'Symfony/Component/RateLimiter/autoload.php';

        return $symfony(new Symfony\Component\RateLimiter\Policy\FixedWindowLimiter(
            KEY,
            CAPACITY,
            new DateInterval('PT1H'),
            new Symfony\Component\RateLimiter\Storage\InMemoryStorage(),
        ));
    },
];

$call = $ways[$way]();
$call(1);
if (isset($argv[3])) {
    $call((int) $argv[3]);
    exit;
}
while (($line = fgets(STDIN)) !== false) {
    $started = hrtime(true);
    $call((int) $line);
    echo hrtime(true) - $started, "\n";
}
