<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Cluster;
use RateLimit\Tests\Php;

/**
 * A Redis Cluster, named by a DSN or by a client object.
 */
final class ClusterTest extends TestCase
{
    private static ?Cluster $open = null;
    private static ?Cluster $locked = null;

    public static function setUpBeforeClass(): void
    {
        self::$open = new Cluster();
        self::$locked = new Cluster(['--requirepass', 'pass+word', '--masterauth', 'pass+word'], 'pass+word');
    }

    public static function tearDownAfterClass(): void
    {
        self::$open = self::$locked = null;
    }

    /**
     * @dataProvider ways
     */
    public function testEveryKeyIsCountedOnItsNode(string $cluster, callable $store): void
    {
        $cluster = self::$$cluster;
        $store = $store($cluster);
        $limiter = new Limiter(Policy::tokenBucket(4, 1.0, 3600.0), $store);
        $before = $cluster->calls('evalsha');
        foreach ([3, 2, 1, 0] as $remaining) {
            for ($key = 0; $key < 30; $key++) {
                self::assertSame($remaining, $limiter->allow("{$this->dataName()} {$key}")->remaining);
            }
        }
        $calls = array_map(static fn (int $after, int $before) => $after - $before, $cluster->calls('evalsha'), $before);
        self::assertSame(120, array_sum($calls));
        self::assertGreaterThan(0, min($calls));
        $store = is_string($store) ? Store::open($store) : Store::redis($store);
        self::assertSame('cluster', $store->kind());
        self::assertGreaterThan(0.0, $store->ping());
    }

    public static function ways(): iterable
    {
        yield 'DSN' => ['open', static fn (Cluster $cluster) => $cluster->dsn()];
        yield 'DSN with password' => ['locked', static fn (Cluster $cluster) => $cluster->dsn()];
        yield 'RedisCluster' => ['open', static fn (Cluster $cluster) => new \RedisCluster(null, $cluster->addresses())];
        yield 'RedisCluster of a class of the application' => ['open', static fn (Cluster $cluster) => new class (null, [$cluster->addresses()[2]]) extends \RedisCluster {
        }];
        yield 'Predis' => ['open', static fn (Cluster $cluster) => new Client($cluster->addresses(), ['cluster' => 'redis'])];
        yield 'Predis with one node of three' => ['open', static fn (Cluster $cluster) => new Client(
            [$cluster->addresses()[1]],
            ['cluster' => 'redis'],
        )];
        yield 'Predis that has been used' => ['open', static function (Cluster $cluster): Client {
            $client = new Client([$cluster->addresses()[1]], ['cluster' => 'redis']);
            array_map(static fn (int $key) => $client->set("used {$key}", '1'), range(1, 20));
            return $client;
        }];
        yield 'Predis with password' => ['locked', static fn (Cluster $cluster) => new Client($cluster->addresses(), [
            'cluster' => 'redis', 'parameters' => ['password' => 'pass+word'],
        ])];
        yield 'Predis with password in each URL' => ['locked', static fn (Cluster $cluster) => new Client(
            array_map(static fn (string $address) => "redis://:pass+word@{$address}", $cluster->addresses()),
            ['cluster' => 'redis', 'parameters' => ['password' => 'pass+word']],
        )];
    }

    public function testTheSameNodesAreTheSameStoreInWhateverOrder(): void
    {
        $policy = Policy::tokenBucket(9, 1.0, 3600.0);
        $connections = static fn () => array_sum(array_map(static fn ($node) => $node->connectionsReceived(), self::$open->nodes));
        $addresses = self::$open->addresses();
        (new Limiter($policy, new Client($addresses, ['cluster' => 'redis'])))->allow('order');
        $before = $connections();
        (new Limiter($policy, new Client(array_reverse($addresses), ['cluster' => 'redis'])))->allow('order');
        self::assertSame($before, $connections());
    }

    public function testAClientObjectThatKeepsItsPasswordToItselfIsToldToBeADsn(): void
    {
        $client = new \RedisCluster(null, self::$locked->addresses(), 0, 0, false, 'pass+word');
        try {
            (new Limiter(Policy::tokenBucket(9, 1.0), $client))->allow('k');
            self::fail('it was let in');
        } catch (StoreUnavailable $failure) {
            self::assertSame('noperm', $failure->kind);
            self::assertStringContainsString('NOAUTH', $failure->getMessage());
            self::assertStringContainsString('The password belongs in the DSN', $failure->getMessage());
        }
    }

    public function testParentAndChildrenEachHaveTheirOwnConnections(): void
    {
        $run = Php::start([...Php::command(), __DIR__ . '/../fixtures/fork.php', self::$open->dsn('?prefix=fork:')]);
        self::assertSame("child 0 done\nchild 0 done\nchild 0 done\nchild 0 done\nparent done\n", $run->printed());
    }

    public function testANodeThatStartsAnewIsFoundAgainAndLearnsItsScripts(): void
    {
        $cluster = new Cluster();
        $limiter = new Limiter(Policy::tokenBucket(9, 1.0, 3600.0), $cluster->dsn());
        $keys = array_map('strval', range(1, 30));
        foreach ($keys as $key) {
            self::assertSame(8, $limiter->allow($key)->remaining);
        }
        $cluster->restart(1);
        foreach ($keys as $key) {
            // It has kept nothing; the others have.
            self::assertSame($cluster->nodeOf($key) === 1 ? 8 : 7, $limiter->allow($key)->remaining, $key);
        }
        self::assertSame(1, $cluster->calls('eval')[1]);
    }
}
