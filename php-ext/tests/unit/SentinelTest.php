<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Sentinels;

/**
 * A primary that sentinels name, by a DSN or by a client object.
 */
final class SentinelTest extends TestCase
{
    private static ?Sentinels $open = null;
    private static ?Sentinels $locked = null;

    public static function setUpBeforeClass(): void
    {
        self::$open = new Sentinels();
        self::$locked = new Sentinels('pass+word');
    }

    public static function tearDownAfterClass(): void
    {
        self::$open = self::$locked = null;
    }

    /**
     * @dataProvider ways
     */
    public function testThePrimaryCounts(string $sentinels, int $database, callable $store): void
    {
        $sentinels = self::$$sentinels;
        $store = $store($sentinels);
        $limiter = new Limiter(Policy::tokenBucket(9, 1.0, 3600.0), $store);
        self::assertSame(8, $limiter->allow($this->dataName())->remaining);
        self::assertSame([7, 6], array_column($limiter->allowMany([[$this->dataName()], [$this->dataName()]]), 'remaining'));
        $redis = $sentinels->servers[0]->connection();
        $redis->select($database);
        self::assertCount(1, $redis->keys('rl:*'));
        $redis->flushDB();
        $redis->select(0);
        $store = is_string($store) ? Store::open($store) : Store::redis($store);
        self::assertSame('sentinel', $store->kind());
    }

    public static function ways(): iterable
    {
        $predis = static fn (array $parameters = []) => static fn (Sentinels $sentinels) => new Client(
            array_map(static fn (string $address) => "tcp://{$address}", $sentinels->addresses()),
            ['replication' => 'sentinel', 'service' => Sentinels::MASTER, 'parameters' => $parameters],
        );
        yield 'DSN' => ['open', 0, static fn (Sentinels $sentinels) => $sentinels->dsn()];
        yield 'DSN with password and database' => ['locked', 3, static fn (Sentinels $sentinels) => $sentinels->dsn('/3')];
        yield 'RedisSentinel' => ['open', 0, static fn (Sentinels $sentinels) => new \RedisSentinel('127.0.0.1', $sentinels->ports[0])];
        yield 'RedisSentinel that has been used' => ['open', 0, static function (Sentinels $sentinels): \RedisSentinel {
            $client = new \RedisSentinel('127.0.0.1', $sentinels->ports[2]);
            self::assertTrue($client->ping());
            return $client;
        }];
        yield 'Predis' => ['open', 0, $predis()];
        yield 'Predis with password and database' => ['locked', 5, $predis(['password' => 'pass+word', 'database' => 5])];
        yield 'Predis that has been used' => ['locked', 0, static function (Sentinels $sentinels) use ($predis): Client {
            $client = $predis(['password' => 'pass+word'])($sentinels);
            self::assertSame('PONG', (string) $client->ping());
            return $client;
        }];
        yield 'Predis by arrays' => ['open', 0, static fn (Sentinels $sentinels) => new Client(
            array_map(static fn (int $port) => ['host' => '127.0.0.1', 'port' => $port], $sentinels->ports),
            ['replication' => 'sentinel', 'service' => Sentinels::MASTER],
        )];
    }

    public function testAPredisClientWithSentinelsIsNotConnectedByBeingRead(): void
    {
        $client = new Client(['tcp://127.0.0.1:1'], ['replication' => 'sentinel', 'service' => Sentinels::MASTER]);
        self::assertSame('sentinel', Store::redis($client)->kind());
        self::assertFalse($client->isConnected());
    }

    public function testAClientObjectThatKeepsItsPasswordToItselfIsToldToBeADsn(): void
    {
        $client = new \RedisSentinel('127.0.0.1', self::$locked->ports[0]);
        $this->expectException(StoreUnavailable::class);
        $this->expectExceptionMessage('The password belongs in the DSN');
        (new Limiter(Policy::tokenBucket(9, 1.0), $client))->allow('k');
    }

    public function testASentinelThatKnowsNoOtherIsToldToBeADsn(): void
    {
        $alone = new Sentinels(null, 1);
        $client = new \RedisSentinel('127.0.0.1', $alone->ports[0]);
        $this->expectException(InvalidStore::class);
        $this->expectExceptionMessage(
            'the RedisSentinel knows no other sentinel, and does not say where it is itself; '
            . 'name it with a redis+sentinel://host:port/master DSN',
        );
        Store::redis($client);
    }

    public function testSeveralPrimariesAreNotGuessedAmong(): void
    {
        $two = new Sentinels(null, 1);
        $client = new \RedisSentinel('127.0.0.1', $two->ports[0]);
        $redis = new \Redis();
        $redis->connect('127.0.0.1', $two->ports[0]);
        $redis->rawCommand('SENTINEL', 'MONITOR', 'second', '127.0.0.1', (string) $two->servers[1]->port, '1');
        try {
            Store::redis($client);
            self::fail('it was taken');
        } catch (InvalidStore $refusal) {
            self::assertStringContainsString('watches 2 primaries (', $refusal->getMessage());
            self::assertStringContainsString('second', $refusal->getMessage());
        }
    }

    public function testAnExceptionOfASentinelThatIsGoneReachesTheCaller(): void
    {
        $this->expectException(\RedisException::class);
        Store::redis(new \RedisSentinel('127.0.0.1', 1, 0.2));
    }

    public function testAfterAFailoverTheSecondCallAtTheLatestIsReal(): void
    {
        $sentinels = new Sentinels();
        $limiter = new Limiter(Policy::tokenBucket(100, 1.0, 3600.0), $sentinels->dsn('?timeout=0.3&connect_timeout=0.3'), 'open');
        self::assertSame(99, $limiter->allow('k')->remaining);
        // What the replica has not seen is lost with the primary.
        self::assertSame(1, $sentinels->servers[0]->connection()->rawCommand('WAIT', '1', '5000'));
        $sentinels->failOver();
        $limiter->allow('k');
        $decision = $limiter->allow('k');
        self::assertSame('store', $decision->source);
        self::assertContains($decision->remaining, [97, 98], 'with what was counted before');
        self::assertSame($decision->remaining - 1, $limiter->allow('k')->remaining);
    }
}
