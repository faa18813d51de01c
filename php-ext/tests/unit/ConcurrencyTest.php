<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Clock;
use RateLimit\Concurrency;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidPolicy;
use RateLimit\Exception\LimitExceeded;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\ManualClock;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * At most so many under way at a time, on every store.
 */
final class ConcurrencyTest extends TestCase
{
    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testAsManyAsTheLimitAreUnderWayAndEachEndsByItself(callable $open): void
    {
        $clock = new ManualClock();
        $uploads = new Concurrency(2, 60.0, $open(), clock: $clock);
        $first = $uploads->acquire('k');
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $first);
        $clock->advance(20.0);
        $second = $uploads->acquire('k');
        self::assertNull($uploads->acquire('k'));
        self::assertNotNull($uploads->acquire('other'), 'each key has its own');
        $peeked = $uploads->peek('k');
        self::assertSame([false, 2, 0, 40.0], [$peeked->allowed, $peeked->limit, $peeked->remaining, $peeked->retryAfter]);
        $clock->advance(40.0);
        self::assertFalse($uploads->release('k', $first), 'its time is over');
        self::assertFalse($uploads->extend('k', $first));
        self::assertTrue($uploads->extend('k', $second));
        $clock->advance(59.0);
        self::assertSame(1, $uploads->peek('k')->remaining);
        self::assertTrue($uploads->release('k', $second));
        self::assertFalse($uploads->release('k', "\xff"));
        self::assertSame([true, 2, 0.0], [($peeked = $uploads->peek('k'))->allowed, $peeked->remaining, $peeked->retryAfter]);
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testAManualClockMovesOnInsteadOfSleeping(callable $open): void
    {
        $clock = new ManualClock();
        $uploads = new Concurrency(1, 60.0, $open(), clock: $clock);
        $uploads->acquire('k');
        self::assertNull($uploads->acquire('k', 59.0));
        self::assertSame(59.0, round($clock->now() - 1_700_000_000.0, 6));
        self::assertNotNull($uploads->acquire('k', INF));
        self::assertSame(60.0, round($clock->now() - 1_700_000_000.0, 6));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testWorkIsDoneUnderALeaseThatIsGivenBackHoweverItEnds(callable $open): void
    {
        $uploads = new Concurrency(1, 60.0, $open(), 'uploads');
        $work = fn (string $lease): array => [$uploads->peek('k')->remaining, $uploads->extend('k', $lease)];
        self::assertSame([0, true], $uploads->run('k', $work));
        self::assertSame(1, $uploads->peek('k')->remaining);
        try {
            $uploads->run('k', static fn () => throw new \DomainException('it failed'));
            self::fail('it was not thrown');
        } catch (\DomainException) {
            self::assertSame(1, $uploads->peek('k')->remaining);
        }
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testARefusalCarriesTheDecision(callable $open): void
    {
        $uploads = new Concurrency(1, 60.0, $open(), 'uploads', new ManualClock());
        $uploads->acquire('k');
        try {
            $uploads->run('k', fn () => self::fail('it was called'));
            self::fail('it ran');
        } catch (LimitExceeded $refusal) {
            self::assertSame('the limit 1 of policy "uploads" is used up; retry after 60 s', $refusal->getMessage());
            $decision = $refusal->decision;
            self::assertSame([false, 60.0, 'uploads'], [$decision->allowed, $decision->retryAfter, $decision->policy]);
            $expected = [
                'RateLimit-Policy' => '"uploads";q=1;qu="concurrent-requests";w=60',
                'RateLimit' => '"uploads";r=0;t=60',
                'Retry-After' => '60',
            ];
            self::assertSame($expected, $decision->headers(quotaUnit: 'concurrent-requests'));
            self::assertSame(['uploads'], $decision->problem()['violated-policies']);
        }
    }

    public function testItIsTheSameLimitByADsnAndByClientObjects(): void
    {
        $server = new RedisServer();
        $redis = new \Redis();
        $redis->connect('127.0.0.1', $server->port);
        $stores = [$server->dsn(), $redis, new Client(['host' => '127.0.0.1', 'port' => $server->port])];
        $limits = array_map(static fn ($store) => new Concurrency(3, 60.0, $store), $stores);
        $leases = array_map(static fn (Concurrency $limit) => $limit->acquire('k'), $limits);
        foreach ($limits as $at => $limit) {
            self::assertNull($limit->acquire('k'));
            self::assertTrue($limit->release('k', $leases[$at]));
            self::assertTrue($limits[0]->release('k', $limit->acquire('k')));
            $leases[$at] = $limit->acquire('k');
        }
    }

    public function testAClockWrittenInPhpIsAskedAndItsExceptionReachesTheCaller(): void
    {
        $clock = new class () implements Clock {
            public ?float $now = 1_700_000_000.0;

            public function now(): float
            {
                return $this->now ?? throw new \DomainException('stopped');
            }
        };
        $uploads = new Concurrency(1, 60.0, Store::memory(1000), clock: $clock);
        $uploads->acquire('k');
        $clock->now += 60.0;
        // Released at the end of the work also where the clock would throw.
        $uploads->run('k', static fn () => $clock->now = null);
        $clock->now = 1_700_000_060.0;
        self::assertSame(1, $uploads->peek('k')->remaining);
        $clock->now = null;
        $this->expectExceptionObject(new \DomainException('stopped'));
        $uploads->acquire('k');
    }

    /**
     * @dataProvider wrong
     */
    public function testWrongArgumentsAreNamed(string $exception, string $message, callable $call): void
    {
        $this->expectException($exception);
        $this->expectExceptionMessage($message);
        $call();
    }

    public static function wrong(): iterable
    {
        $with = static fn (mixed ...$arguments) => static fn () => new Concurrency(...[...['limit' => 1, 'leaseTtl' => 1.0, 'store' => 'memory:'], ...$arguments]);
        yield [InvalidPolicy::class, 'limit must be between 1 and 2147483647, got 0', $with(limit: 0)];
        yield [InvalidPolicy::class, 'limit must be an integer between 1 and 2147483647, got 1.5', $with(limit: 1.5)];
        yield [InvalidPolicy::class, 'leaseTtl must be between 0.001 and ', $with(leaseTtl: 0)];
        yield [InvalidPolicy::class, 'name must be 1 to 100 printable ASCII characters', $with(name: '')];
        yield [\TypeError::class, 'clock must be of type ?RateLimit\Clock, stdClass given', $with(clock: new \stdClass())];
        $made = static fn () => new Concurrency(1, 1.0, 'memory:');
        yield [InvalidArgument::class, 'maxWait must be at least 0 seconds, got -1', static fn () => $made()->acquire('k', -1)];
        yield [\TypeError::class, 'work must be of type callable, int given', static fn () => $made()->run('k', 5)];
        yield [StoreUnavailable::class, '127.0.0.1', static fn () => (new Concurrency(1, 1.0, 'redis://127.0.0.1:' . Wait::freePort()))->run('k', fn () => self::fail('it was called'))];
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::ofManyProcesses
     */
    public function testOfManyProcessesNeverMoreThanTheLimitAreInside(callable $open): void
    {
        [$dsn, $held] = $open();
        // Each writes its place in a folder; more places than the limit at once would show.
        $folder = Wait::folder();
        $code = '[, $dsn, $folder] = $argv;
            $uploads = new RateLimit\Concurrency(2, 600.0, $dsn, "processes");
            for ($child = 0; $child < 5; $child++) {
                if (pcntl_fork() === 0) {
                    $most = 0;
                    for ($turn = 0; $turn < 40; $turn++) {
                        $uploads->run("k", function () use ($folder, $child, &$most) {
                            touch("{$folder}/{$child}");
                            clearstatcache();
                            $most = max($most, count(glob("{$folder}/*")));
                            usleep(200);
                            unlink("{$folder}/{$child}");
                        }, INF);
                    }
                    exit($most);
                }
            }
            $most = [];
            while (pcntl_wait($status) > 0) { $most[] = pcntl_wexitstatus($status); }
            echo max($most), " ", min($most), " ", $uploads->peek("k")->remaining;';
        $printed = Php::start([...Php::command(), '-r', $code, '--', $dsn, $folder])->printed();
        self::assertMatchesRegularExpression('/^[12] [12] 2$/', $printed);
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::ofManyProcesses
     */
    public function testWhoIsKilledHoldsALeaseNoLongerThanItsTime(callable $open): void
    {
        [$dsn, $held] = $open();
        $code = 'echo (new RateLimit\Concurrency(1, 1.0, $argv[1]))->acquire("k"); exec("kill -9 " . getmypid());';
        $run = Php::start([...Php::command(), '-r', $code, '--', $dsn]);
        self::assertSame([SIGKILL, 32], [$run->status, strlen($run->output)], $run->errors);
        $uploads = new Concurrency(1, 1.0, $dsn);
        self::assertNotNull($uploads->acquire('k', 30.0));
        self::assertFalse($uploads->release('k', $run->output));
    }
}
