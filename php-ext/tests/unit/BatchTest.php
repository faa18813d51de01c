<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Decision;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidCost;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Cluster;
use RateLimit\Tests\RedisServer;

/**
 * Many calls at once: one decision each, in order, in one round trip per server.
 */
final class BatchTest extends TestCase
{
    private static ?RedisServer $server = null;
    private static ?Cluster $cluster = null;

    public static function setUpBeforeClass(): void
    {
        self::$server = new RedisServer();
        self::$cluster = new Cluster();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server = self::$cluster = null;
    }

    /**
     * @dataProvider stores
     */
    public function testEachCallHasItsOwnDecisionInOrder(callable $store): void
    {
        $limiter = $this->limiter($store());
        $decisions = $limiter->allowMany([['a', 3], ['b', 11], ['a', 8], ['a', 7], ['c', 1], ['b', 10]]);
        self::assertTrue(array_is_list($decisions));
        self::assertContainsOnlyInstancesOf(Decision::class, $decisions);
        self::assertSame([
            [true, 7, 0.0], [false, 10, INF], [false, 7, 3600.0], [true, 0, 0.0], [true, 9, 0.0], [true, 0, 0.0],
        ], array_map(static fn (Decision $one) => [$one->allowed, $one->remaining, round($one->retryAfter, -2)], $decisions));
        self::assertSame(['store'], array_unique(array_column($decisions, 'source')));
        self::assertSame([], $limiter->allowMany([]));
    }

    public static function stores(): iterable
    {
        yield 'memory' => [static fn () => Store::memory()];
        yield 'one server' => [static fn () => self::$server->dsn() . '/1'];
        yield 'cluster' => [static fn () => self::$cluster->dsn('?prefix=order:')];
    }

    public function testKeysAndCostsAreTakenAsEverywhere(): void
    {
        $limiter = $this->limiter(Store::memory());
        $stringable = new class () {
            public function __toString(): string
            {
                return '42';
            }
        };
        $key = 42;
        $pair = [&$key, 1];
        $calls = [[42, 1], ['42', '2'], [$stringable, 2.0], [42], [&$key], &$pair, ["\0\xff", true]];
        self::assertSame([9, 7, 5, 4, 3, 2, 9], array_column($limiter->allowMany($calls), 'remaining'));
        self::assertSame([42, '2', $stringable], [$calls[0][0], $calls[1][1], $calls[2][0]], 'the array is as it was');
    }

    public function testAKeyMayNameOneForEachPolicy(): void
    {
        $limiter = new Limiter([Policy::gcra(1, 3600.0, 10, 'client'), Policy::fixedWindow(3, 3600.0, name: 'all')], Store::memory());
        $decisions = $limiter->allowMany([[['client' => 'a', 'all' => 'x'], 2], [['client' => 'b', 'all' => 'x'], 2], ['c', 1]]);
        self::assertSame([true, false, true], array_column($decisions, 'allowed'));
        self::assertSame('all', $decisions[1]->policy);
        self::assertSame([8, 1], array_column($decisions[0]->each(), 'remaining'));
    }

    public function testTheLimitersClockGoesForAllOfThem(): void
    {
        $clock = new ManualClock();
        $limiter = new Limiter(Policy::tokenBucket(2, 1.0), Store::memory(), clock: $clock);
        $calls = [['k', 1], ['k', 1], ['k', 1]];
        self::assertSame([true, true, false], array_column($limiter->allowMany($calls), 'allowed'));
        $clock->advance(2.0);
        self::assertSame([true, true, false], array_column($limiter->allowMany($calls), 'allowed'));
    }

    public function testAllOfThemAreOneRoundTripOnOneConnection(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $limiter->allow('warm');
        [$calls, $reads, $connections] = [$server->calls('evalsha'), $server->reads(), $server->connectionsReceived()];
        $decisions = $limiter->allowMany(array_map(static fn (int $key) => [$key % 5, 1], range(0, 49)));
        // The test's own three questions are the others.
        self::assertSame([50, 1 + 3, 0], [
            $server->calls('evalsha') - $calls, $server->reads() - $reads, $server->connectionsReceived() - $connections,
        ]);
        $expected = array_merge(...array_map(static fn (int $left) => array_fill(0, 5, $left), range(9, 0)));
        self::assertSame($expected, array_column($decisions, 'remaining'));
    }

    public function testOnAClusterEachNodeIsAskedOnce(): void
    {
        $limiter = $this->limiter(self::$cluster->dsn('?prefix=nodes:'));
        $calls = array_map(static fn (int $key) => [$key, 1], range(1, 60));
        $limiter->allowMany($calls);
        $seen = static fn () => array_map(static fn (RedisServer $node) => [$node->calls('evalsha'), $node->reads()], self::$cluster->nodes);
        $before = $seen();
        self::assertSame(array_fill(0, 60, 8), array_column($limiter->allowMany($calls), 'remaining'));
        $after = $seen();
        $commands = 0;
        foreach (self::$cluster->nodes as $node => $_) {
            $commands += $after[$node][0] - $before[$node][0];
            self::assertGreaterThan(0, $after[$node][0] - $before[$node][0]);
            // Nodes talk among themselves on connections of another kind, whose reads are not counted.
            self::assertSame(1 + 2, $after[$node][1] - $before[$node][1], 'one for the batch, two for the test');
        }
        self::assertSame(60, $commands);
    }

    public function testAForgottenScriptCountsNothingTwice(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $calls = [['a', 1], ['b', 2], ['a', 3]];
        self::assertSame([9, 8, 6], array_column($limiter->allowMany($calls), 'remaining'));
        $server->connection()->script('flush');
        self::assertSame([5, 6, 2], array_column($limiter->allowMany($calls), 'remaining'));
    }

    /**
     * @dataProvider wrongCalls
     */
    public function testAWrongCallIsNamedByItsIndexAndNothingIsSent(mixed $calls, string $class, string $message): void
    {
        $server = self::$server;
        $limiter = $this->limiter($server->dsn());
        $before = $server->calls('evalsha') + $server->calls('eval');
        try {
            $limiter->allowMany($calls);
            self::fail('it was taken');
        } catch (\Throwable $refusal) {
            self::assertSame([$class, $message], [$refusal::class, $refusal->getMessage()]);
        }
        self::assertSame($before, $server->calls('evalsha') + $server->calls('eval'));
    }

    public static function wrongCalls(): iterable
    {
        $pairs = 'calls must be a list of [key, cost] pairs, got';
        yield 'no array' => ['k', \TypeError::class, 'calls must be of type array, string given'];
        yield 'a map of keys and costs' => [['alice' => 1, 'bob' => 2], InvalidArgument::class, "{$pairs} an array that is no list"];
        yield 'a map of numbers' => [[7 => 1], InvalidArgument::class, "{$pairs} an array that is no list"];
        yield 'keys alone' => [[['a', 1], 'b'], InvalidArgument::class, "{$pairs} string at index 1"];
        yield 'costs alone' => [[3], InvalidArgument::class, "{$pairs} int at index 0"];
        yield 'a member too many' => [[['a', 1, 2]], InvalidArgument::class, "{$pairs} another array at index 0"];
        yield 'an empty pair' => [[['a', 1], []], InvalidArgument::class, "{$pairs} another array at index 1"];
        yield 'names in a pair' => [[['key' => 'a', 'cost' => 1]], InvalidArgument::class, "{$pairs} another array at index 0"];
        yield 'no key' => [[['a', 1], [null, 1]], \TypeError::class, 'calls[1][0] must be of type string|array, null given'];
        yield 'no cost' => [[['a', 'b']], \TypeError::class, 'calls[0][1] must be of type int, string given'];
        yield 'a part of a unit' => [
            [['a', 1], ['a', 1.5]], InvalidCost::class, 'cost must be an integer between 1 and 2147483647, got 1.5, at index 1',
        ];
        yield 'nothing' => [
            [['a', 1], ['b', 2], ['a', 0]], InvalidCost::class, 'cost must be an integer between 1 and 2147483647, got 0, at index 2',
        ];
    }

    public function testAnExceptionOfAKeyReachesTheCaller(): void
    {
        $broken = new class () {
            public function __toString(): string
            {
                throw new \DomainException('no key today');
            }
        };
        try {
            $this->limiter(Store::memory())->allowMany([['a', 1], [$broken, 1]]);
            self::fail('it was taken');
        } catch (\Throwable $thrown) {
            $thrown = $thrown instanceof \DomainException ? $thrown : $thrown->getPrevious();
            self::assertInstanceOf(\DomainException::class, $thrown);
        }
    }

    public function testKeysOfOneCallOnDifferentNodesAreRefusedBeforeAnythingIsSent(): void
    {
        $policies = [Policy::tokenBucket(5, 1.0, 3600.0, name: 'x'), Policy::tokenBucket(5, 1.0, 3600.0, name: 'y')];
        $limiter = new Limiter($policies, self::$cluster->dsn('?prefix=apart:'));
        $this->expectException(InvalidArgument::class);
        $this->expectExceptionMessage('key must be one for all policies on a cluster');
        try {
            $limiter->allowMany([['same', 1], [['x' => 'one', 'y' => 'another'], 1]]);
        } finally {
            self::assertSame(5, $limiter->peek('same')->remaining);
        }
    }

    public function testWhereSomeHaveNoAnswerTheOthersAreNotLost(): void
    {
        $cluster = new Cluster();
        $dsn = $cluster->dsn('?timeout=0.2&connect_timeout=0.2');
        $limiter = $this->limiter($dsn);
        $keys = range(1, 12);
        $calls = array_map(static fn (int $key) => [$key, 4], $keys);
        $limiter->allowMany($calls);
        $silent = static fn (int $key) => $cluster->nodeOf((string) $key) === 1;
        $count = count(array_filter($keys, $silent));
        self::assertGreaterThan(0, $count);
        self::assertLessThan(12, $count);
        $expected = array_map(static fn (int $key) => $silent($key) ? null : 2, $keys);
        $cluster->nodes[1]->signal(SIGSTOP);
        try {
            $started = microtime(true);
            try {
                $limiter->allowMany($calls);
                self::fail('all were answered');
            } catch (StoreUnavailable $failure) {
                self::assertLessThan(0.4 + 0.5, microtime(true) - $started);
                self::assertSame('timeout', $failure->kind);
                self::assertStringStartsWith("{$count} of 12 calls have no decision: redis at ", $failure->getMessage());
                self::assertSame($expected, array_map(static fn (?Decision $one) => $one?->remaining, $failure->decisions));
            }
            $decisions = (new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $dsn, 'open'))->allowMany($calls);
        } finally {
            $cluster->nodes[1]->signal(SIGCONT);
        }
        self::assertSame(array_map($silent, $keys), array_column($decisions, 'degraded'));
    }

    public function testAServerThatIsGoneLeavesAllWithoutADecision(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $limiter->allow('k');
        $server->stop();
        try {
            $limiter->allowMany([['a', 1], ['b', 1]]);
            self::fail('it was answered');
        } catch (StoreUnavailable $failure) {
            self::assertContains($failure->kind, ['refused', 'closed']);
            self::assertSame([null, null], $failure->decisions);
        }
        try {
            $limiter->allow('a');
            self::fail('it was answered');
        } catch (StoreUnavailable $failure) {
            self::assertSame([], $failure->decisions, 'these are of many calls only');
        }
        $server->start();
        self::assertSame([9, 9], array_column($limiter->allowMany([['a', 1], ['b', 1]]), 'remaining'));
    }

    private function limiter(mixed $store): Limiter
    {
        return new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $store);
    }
}
