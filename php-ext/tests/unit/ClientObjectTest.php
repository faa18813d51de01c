<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Exception\InvalidStore;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * A client object of the application says where it connects to; we connect to the same place ourselves.
 */
final class ClientObjectTest extends TestCase
{
    private const USER = ['--user', 'app', 'on', '>app pass', '~*', '&*', '+@all'];

    private static ?RedisServer $open = null;
    private static ?RedisServer $locked = null;

    public static function setUpBeforeClass(): void
    {
        self::$open = new RedisServer();
        self::$locked = new RedisServer(['--requirepass', 'pass+word', ...self::USER]);
    }

    public static function tearDownAfterClass(): void
    {
        self::$open = self::$locked = null;
    }

    /**
     * @dataProvider clients
     */
    public function testItsPlaceIsReadAndItsConnectionLeftAlone(string $server, int $database, callable $client): void
    {
        $server = self::$$server;
        $client = $client($server);
        $key = $this->getName();
        $policy = Policy::tokenBucket(10, 1.0, 3600.0);
        self::assertSame(9, (new Limiter($policy, $client))->allow($key)->remaining);
        self::assertSame(8.0, (new \TokenBucket(10, 1.0, 3600.0, $client))->allow($key)['remaining']);
        self::assertSame(7, (new Limiter($policy, Store::redis($client)))->allow($key)->remaining);
        $redis = $server->connection();
        $redis->select($database);
        self::assertCount(1, $redis->keys('rl:tb:default:{*}'), 'in that database, and not twice');
        $redis->flushDB();
        $redis->select(0);
    }

    public static function clients(): iterable
    {
        $redis = static function (RedisServer $server, mixed $auth, int $database, bool $socket): \Redis {
            $redis = new \Redis();
            $socket ? $redis->connect($server->socket()) : $redis->connect('127.0.0.1', $server->port);
            $auth !== null && $redis->auth($auth);
            $database !== 0 && $redis->select($database);
            return $redis;
        };
        foreach (['TCP' => false, 'socket' => true] as $name => $socket) {
            yield "Redis over {$name}" => ['open', 0, static fn (RedisServer $server) => $redis($server, null, 0, $socket)];
            yield "Redis over {$name} with password and database" => [
                'locked', 3, static fn (RedisServer $server) => $redis($server, 'pass+word', 3, $socket),
            ];
            yield "Redis over {$name} with user" => [
                'locked', 0, static fn (RedisServer $server) => $redis($server, ['app', 'app pass'], 0, $socket),
            ];
        }
        yield 'persistent Redis' => ['open', 5, static function (RedisServer $server): \Redis {
            $redis = new \Redis();
            $redis->pconnect('127.0.0.1', $server->port);
            $redis->select(5);
            return $redis;
        }];
        yield 'Redis of a class of the application' => ['open', 0, static function (RedisServer $server): \Redis {
            $redis = new class () extends \Redis {
            };
            $redis->connect('127.0.0.1', $server->port);
            return $redis;
        }];
        yield 'Redis in a transaction' => ['open', 0, static function (RedisServer $server): \Redis {
            $redis = new \Redis();
            $redis->connect('127.0.0.1', $server->port);
            $redis->multi();
            return $redis;
        }];
        yield 'Redis that was closed and would connect again' => ['open', 0, static function (RedisServer $server): \Redis {
            $redis = new \Redis();
            $redis->connect('127.0.0.1', $server->port);
            $redis->close();
            return $redis;
        }];
        yield 'Predis by array' => ['open', 0, static fn (RedisServer $server) => new Client([
            'scheme' => 'tcp', 'host' => '127.0.0.1', 'port' => $server->port,
        ])];
        yield 'Predis by URL' => ['locked', 4, static fn (RedisServer $server) => new Client(
            "redis://:pass+word@127.0.0.1:{$server->port}/4",
        )];
        yield 'Predis with password and database' => ['locked', 6, static fn (RedisServer $server) => new Client([
            'host' => '127.0.0.1', 'port' => (string) $server->port, 'password' => 'pass+word', 'database' => '6',
        ])];
        yield 'Predis with user' => ['locked', 0, static fn (RedisServer $server) => new Client([
            'host' => '127.0.0.1', 'port' => $server->port, 'username' => 'app', 'password' => 'app pass',
        ])];
        yield 'Predis with a primary and a replica' => ['open', 0, static fn (RedisServer $server) => new Client(
            ["tcp://127.0.0.1:{$server->port}?alias=master", 'tcp://127.0.0.1:1?alias=replica'],
            ['replication' => true],
        )];
        yield 'Predis over socket' => ['locked', 2, static fn (RedisServer $server) => new Client([
            'scheme' => 'unix', 'path' => $server->socket(), 'password' => 'pass+word', 'database' => 2,
        ])];
    }

    public function testAPredisClientIsNotConnectedByBeingRead(): void
    {
        $client = new Client(['host' => '127.0.0.1', 'port' => self::$open->port]);
        (new Limiter(Policy::tokenBucket(10, 1.0), $client))->allow('k');
        self::assertFalse($client->isConnected());
    }

    public function testTwoClientsOfOnePlaceShareOurConnection(): void
    {
        $client = static fn () => new Client(['host' => '127.0.0.1', 'port' => self::$open->port, 'database' => 9]);
        $policy = Policy::tokenBucket(10, 1.0);
        (new Limiter($policy, $client()))->allow('k');
        $connections = self::$open->connectionsReceived();
        (new Limiter($policy, $client()))->allow('k');
        self::assertSame($connections, self::$open->connectionsReceived());
    }

    /**
     * @dataProvider uselessClients
     */
    public function testAClientThatNamesNoPlaceIsRefused(callable $client, string $message): void
    {
        $this->expectException(InvalidStore::class);
        $this->expectExceptionMessage($message);
        new Limiter(Policy::tokenBucket(10, 1.0), $client());
    }

    public static function uselessClients(): iterable
    {
        yield 'never connected' => [static fn () => new \Redis(), 'the Redis object is not connected; call connect() first'];
        yield 'Predis that shares keys out by itself' => [
            static fn () => new Client(['tcp://127.0.0.1:1', 'tcp://127.0.0.1:2'], ['cluster' => 'predis']),
            'a Predis client must be connected to one server, to a cluster of Redis\'s or through sentinels, '
                . 'got Predis\Connection\Aggregate\PredisCluster',
        ];
        yield 'Predis with sentinels of no service' => [
            static fn () => new Client(['tcp://127.0.0.1:1'], ['replication' => 'sentinel']),
            'the Predis client names no sentinels; name them with a redis+sentinel:// DSN',
        ];
        yield 'Predis with a cluster behind sockets' => [
            static fn () => new Client(['unix:/run/one.sock', 'unix:/run/two.sock'], ['cluster' => 'redis']),
            "the client's connection must use the scheme tcp, tls or unix, got unix",
        ];
        yield 'negative database' => [
            static fn () => new Client(['database' => -1]),
            "the client's database must not be negative, got -1",
        ];
        yield 'port out of range' => [
            static fn () => new Client(['port' => 70000]),
            "the client's port must be below 65536, got 70000",
        ];
    }

    public function testAnExceptionOfTheClientReachesTheCaller(): void
    {
        $client = $this->createStub(\Predis\ClientInterface::class);
        $client->method('getConnection')->willThrowException(new \DomainException('no connection today'));
        $this->expectExceptionObject(new \DomainException('no connection today'));
        new Limiter(Policy::tokenBucket(10, 1.0), $client);
    }

    public function testAClientOfAServerThatIsGoneIsReadAllTheSame(): void
    {
        $client = new Client(['host' => '127.0.0.1', 'port' => Wait::freePort()]);
        self::assertTrue((new Limiter(Policy::tokenBucket(10, 1.0), $client, 'open'))->allow('k')->degraded);
    }
}
