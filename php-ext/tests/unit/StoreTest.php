<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

final class StoreTest extends TestCase
{
    private static ?RedisServer $server = null;

    public static function setUpBeforeClass(): void
    {
        self::$server = new RedisServer(['--requirepass', 'p@ss:word']);
    }

    public static function tearDownAfterClass(): void
    {
        self::$server = null;
    }

    public function testEachWayToNameAServerReachesIt(): void
    {
        $password = rawurlencode('p@ss:word');
        $port = self::$server->port;
        $stores = [
            Store::open("redis://:{$password}@127.0.0.1:{$port}"),
            Store::open("redis://default:{$password}@localhost:{$port}/0?timeout=1&connect_timeout=1"),
            Store::open('redis+unix://' . self::$server->socket() . "?password={$password}"),
            Store::redis("redis://:{$password}@127.0.0.1:{$port}", timeout: 1, connectTimeout: '1'),
        ];
        foreach ($stores as $at => $store) {
            self::assertSame('redis', $store->kind());
            self::assertGreaterThan(0.0, $store->ping());
            self::assertSame(9 - $at, $this->limiter($store)->allow('one budget')->remaining);
        }
    }

    public function testDatabaseAndPrefixKeepBudgetsApart(): void
    {
        $dsn = 'redis://:' . rawurlencode('p@ss:word') . '@127.0.0.1:' . self::$server->port;
        foreach ([Store::open("{$dsn}/1"), Store::open("{$dsn}/2"), Store::redis("{$dsn}/2", prefix: 'app:')] as $store) {
            self::assertSame(9, $this->limiter($store)->allow('apart')->remaining);
        }
        $redis = self::$server->connection();
        $redis->select(2);
        $keys = $redis->keys('*');
        sort($keys);
        $redis->select(0);
        self::assertSame(['app:tb:default:{apart}', 'rl:tb:default:{apart}'], $keys);
    }

    public function testAWrongPasswordIsToldWithoutRepeatingIt(): void
    {
        try {
            Store::open('redis://:hunter2@127.0.0.1:' . self::$server->port)->ping();
            self::fail('it was let in');
        } catch (StoreUnavailable $failure) {
            self::assertSame('noperm', $failure->kind);
            self::assertStringNotContainsString('hunter2', $failure->getMessage());
        }
    }

    /**
     * @dataProvider faultyDsns
     */
    public function testAFaultyDsnIsRefusedAndNamesThePart(string $dsn, string $part): void
    {
        foreach ([static fn () => Store::open($dsn), static fn () => new \TokenBucket(redis: $dsn)] as $open) {
            try {
                $open();
                self::fail('it was taken');
            } catch (InvalidStore $refusal) {
                self::assertStringContainsString($part, $refusal->getMessage());
                self::assertStringNotContainsString('hunter2', $refusal->getMessage());
            }
        }
    }

    public static function faultyDsns(): iterable
    {
        yield ['', 'DSN'];
        yield ['127.0.0.1:6379', 'DSN'];
        yield ["redis://\xff", 'UTF-8'];
        yield ['http://cache', '"http"'];
        yield ['redis://:hunter2@cache/x', 'database'];
        yield ['redis://:hunter2@cache?timeout=0', 'timeout'];
        yield ['redis://:hunter2@cache?tiemout=1', '"tiemout"'];
        yield ['memory:?max_keys=0', 'maxKeys'];
    }

    public function testOptionsOfRedisAreChecked(): void
    {
        $calls = [
            'timeout must be above 0 and at most 3600 seconds, got 0' => ['timeout' => 0],
            'timeout must be above 0 and at most 3600 seconds, got NaN' => ['timeout' => NAN],
            'connectTimeout must be above 0 and at most 3600 seconds, got inf' => ['connectTimeout' => INF],
            'prefix must be printable ASCII without spaces and braces, got "a{b"' => ['prefix' => 'a{b'],
            'redis must be the DSN of a Redis server, got another store\'s' => ['redis' => 'memory:'],
            'redis must be a DSN, a connected Redis, a RedisCluster, a RedisSentinel or a Predis\ClientInterface, got stdClass' => ['redis' => new \stdClass()],
        ];
        foreach ($calls as $message => $arguments) {
            try {
                Store::redis(...$arguments);
                self::fail("taken: {$message}");
            } catch (InvalidStore $refusal) {
                self::assertSame($message, $refusal->getMessage());
            }
        }
    }

    public function testAMemoryStoreIsItsOwnAndADsnNamesTheWorkers(): void
    {
        self::assertSame('memory', Store::memory()->kind());
        self::assertSame(0.0, Store::memory()->ping());
        self::assertSame(9, $this->limiter(Store::memory())->allow('own')->remaining);
        self::assertSame(9, $this->limiter(Store::memory(maxKeys: 10))->allow('own')->remaining);
        self::assertSame(9, $this->limiter('memory:')->allow('own')->remaining);
        self::assertSame(8, $this->limiter(Store::open('memory:'))->allow('own')->remaining);
        foreach ([0, -1, 1.5] as $keys) {
            try {
                Store::memory($keys);
                self::fail('it was taken');
            } catch (InvalidStore $refusal) {
                self::assertSame("maxKeys must be at least 1, got {$keys}", $refusal->getMessage());
            }
        }
    }

    public function testTheDefaultStoreComesFromTheEnvironmentThenTheSettingThenMemory(): void
    {
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(10, 1.0));
            try { echo $limiter->allow("k")->source; } catch (RateLimit\Exception\StoreUnavailable $e) { echo $e->getMessage(); }';
        [$one, $two] = [Wait::freePort(), Wait::freePort()];
        $setting = ['ratelimit.store' => "redis://127.0.0.1:{$one}"];
        $environment = ['RATELIMIT_STORE' => "redis://127.0.0.1:{$two}"];
        self::assertSame('store', Php::run($code, [], ['RATELIMIT_STORE' => ''])->printed());
        self::assertStringContainsString(":{$one} ", Php::run($code, $setting, ['RATELIMIT_STORE' => ''])->printed());
        self::assertStringContainsString(":{$two} ", Php::run($code, $setting, $environment)->printed());
    }

    public function testTheSettingMayChangeWhileTheScriptRuns(): void
    {
        $code = 'ini_set("ratelimit.store", "memory:?max_keys=5"); new TokenBucket;
            ini_set("ratelimit.store", "nonsense"); try { new TokenBucket; } catch (RateLimit\Exception\InvalidStore) { echo "refused"; }';
        self::assertSame('refused', Php::run($code, [], ['RATELIMIT_STORE' => ''])->printed());
    }

    public function testAStoreCannotBeMadeByItsConstructor(): void
    {
        $this->expectException(\Error::class);
        $this->expectExceptionMessage('Call to private RateLimit\Store::__construct()');
        new Store();
    }

    public function testHashedKeysLeaveNoIdentityInTheStore(): void
    {
        $server = new RedisServer();
        foreach ([['hashKeys' => true], ['hashKeys' => true, 'secret' => "\xff\0secret"]] as $options) {
            $limiter = new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $server->dsn(), ...$options);
            self::assertSame(9, $limiter->allow('192.0.2.10')->remaining);
            self::assertSame(8, $limiter->allow('192.0.2.10')->remaining);
        }
        self::assertCount(2, $server->connection()->keys('*'));
        self::assertSame([], $server->connection()->keys('*192.0.2.10*'));
    }

    public function testWhileOneSecretTakesOverFromAnotherWorkersWithEitherShareTheirLimits(): void
    {
        $server = new RedisServer();
        foreach ([Store::memory(), $server->dsn()] as $store) {
            $make = static fn (string|array $secret) => new Limiter(
                Policy::tokenBucket(10, 1.0, 3600.0), $store, hashKeys: true, secret: $secret,
            );
            [$old, $both, $new] = array_map($make, ['old', ['new', 'old'], ['new']]);
            $left = static fn (Limiter ...$limiters) => array_map(static fn (Limiter $it) => $it->allow('k')->remaining, $limiters);
            self::assertSame([9, 8, 7, 6], $left($old, $both, $old, $both));
            self::assertSame(8, $new->peek('k')->remaining);
            $both->reset('k');
            self::assertSame([9, 8, 7], $left($both, $new, $both));
        }
    }

    public function testASecretThatIsNoneIsRefusedWithASentence(): void
    {
        $refusals = [
            [[], 'secret must be 1 to 4 secrets, got 0'],
            ['', 'secret must not be empty'],
            [['a', ''], 'secret must not have an empty one, got one at index 1'],
            [['hunter2', 'hunter2'], 'secret must not have one secret twice, got the one at index 0 again'],
            [['a', null], 'secret must be of type array|string|null, array with null given'],
            [new \stdClass(), 'secret must be of type array|string|null, stdClass given'],
        ];
        foreach ($refusals as [$secret, $message]) {
            try {
                new Limiter(Policy::tokenBucket(1, 1.0), Store::memory(), secret: $secret);
                self::fail('it was taken');
            } catch (InvalidArgument | \TypeError $refusal) {
                self::assertSame($message, $refusal->getMessage());
            }
        }
    }

    private function limiter(mixed $store): Limiter
    {
        return new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $store);
    }
}
