<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Exception\WaitTooLong;
use RateLimit\Lock;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * One holder per key, on every store.
 */
final class LockTest extends TestCase
{
    /** Long enough for any test, in seconds. */
    private const LONG = 600.0;

    /** A lock is let go in this time in any case, on a busy machine, too. */
    private const TTL = 1.0;

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testOneHoldsALockAndOnlyTheOwnerExtendsOrReleasesIt(callable $open): void
    {
        $lock = new Lock($open());
        $owner = $lock->acquire('report', self::LONG);
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $owner);
        self::assertNull($lock->acquire('report', self::LONG));
        self::assertNull($lock->acquire('report', self::LONG, 0.02));
        self::assertTrue($lock->isHeld('report'));
        $other = $lock->acquire('another', self::LONG);
        foreach ([$other, '', 'nobody', "\xff"] as $stranger) {
            self::assertFalse($lock->extend('report', $stranger, self::LONG));
            self::assertFalse($lock->release('report', $stranger));
        }
        self::assertTrue($lock->extend('report', $owner, self::LONG));
        self::assertTrue($lock->release('report', $owner));
        self::assertFalse($lock->release('report', $owner));
        self::assertFalse($lock->isHeld('report'));
        self::assertNotNull($lock->acquire('report', self::LONG));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testALockEndsByItselfUnlessItIsExtended(callable $open): void
    {
        $lock = new Lock($open());
        $short = $lock->acquire('short', 0.02);
        $kept = $lock->acquire('kept', 0.02);
        self::assertTrue($lock->extend('kept', $kept, self::LONG));
        $next = $lock->acquire('short', self::LONG, INF);
        self::assertFalse($lock->release('short', $short));
        self::assertTrue($lock->release('short', $next));
        self::assertTrue($lock->isHeld('kept'));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testWorkIsDoneUnderALockThatIsReleasedHoweverItEnds(callable $open): void
    {
        $lock = new Lock($open());
        $work = fn (string $owner): array => [$lock->isHeld('report'), $lock->extend('report', $owner, self::LONG)];
        self::assertSame([true, true], $lock->run('report', self::LONG, $work));
        self::assertFalse($lock->isHeld('report'));
        self::assertNull($lock->run('report', self::LONG, static function (): void {}));
        $thrown = new \DomainException('it failed');
        try {
            $lock->run('report', self::LONG, static fn () => throw $thrown);
            self::fail('it was not thrown');
        } catch (\DomainException $caught) {
            self::assertSame($thrown, $caught);
        }
        self::assertFalse($lock->isHeld('report'));
        // Work that lets go by itself has done nothing wrong.
        self::assertTrue($lock->run('report', self::LONG, fn (string $owner) => $lock->release('report', $owner)));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::each
     */
    public function testWorkIsNotDoneWhereSomebodyElseHoldsTheLock(callable $open): void
    {
        $lock = new Lock($open());
        $owner = $lock->acquire('secret name', self::LONG);
        foreach ([0.0, 0.02] as $maxWait) {
            try {
                $lock->run('secret name', self::LONG, fn () => self::fail('it was called'), $maxWait);
                self::fail('it ran');
            } catch (WaitTooLong $refusal) {
                self::assertStringContainsString("the lock is held by somebody else, and was for all of the {$maxWait} s", $refusal->getMessage());
                self::assertStringNotContainsString('secret', $refusal->getMessage());
            }
        }
        self::assertTrue($lock->release('secret name', $owner), 'it is the owner\'s still');
    }

    public function testItIsTheSameLockByADsnAndByClientObjects(): void
    {
        $server = new RedisServer();
        $redis = new \Redis();
        $redis->connect('127.0.0.1', $server->port);
        $predis = new Client(['host' => '127.0.0.1', 'port' => $server->port]);
        $locks = array_map(static fn ($store) => new Lock($store), [$server->dsn(), $redis, $predis, Store::redis($redis)]);
        foreach ($locks as $at => $lock) {
            $owner = $lock->acquire('report', self::LONG);
            self::assertNotNull($owner);
            self::assertNull($locks[($at + 1) % 4]->acquire('report', self::LONG));
            self::assertSame($owner, $redis->get('rl:lock:{report}'));
            self::assertTrue($locks[($at + 2) % 4]->release('report', $owner));
        }
    }

    public function testArgumentsAreTakenAsByTheLimiterAndWrongOnesAreNamed(): void
    {
        $lock = new Lock(Store::memory(1000));
        $owner = $lock->acquire(42, '30', '0.5');
        self::assertTrue($lock->isHeld('42'));
        self::assertTrue($lock->release(new class () implements \Stringable {
            public function __toString(): string
            {
                return '42';
            }
        }, $owner));
        $refused = static function (string $message, callable $call): void {
            try {
                $call();
                self::fail("it was accepted: {$message}");
            } catch (InvalidArgument | \TypeError $error) {
                self::assertStringStartsWith($message, $error->getMessage());
            }
        };
        foreach ([0, -1, 0.0009, NAN, INF] as $ttl) {
            $refused('ttl must be between 0.001 and ', fn () => $lock->acquire('k', $ttl));
            $refused('ttl must be between 0.001 and ', fn () => $lock->run('k', $ttl, fn () => self::fail('it was called')));
        }
        $refused('maxWait must be at least 0 seconds, got -1', fn () => $lock->acquire('k', 1, -1));
        $refused('maxWait must be at least 0 seconds, got NAN', fn () => $lock->run('k', 1, fn () => 0, NAN));
        $refused('key must be of type string, array given', fn () => $lock->acquire([], 1));
        $refused('work must be of type callable, string given', fn () => $lock->run('k', 1, 'no function of that name'));
        $refused('ttl must be of type float, string given', fn () => $lock->acquire('k', 'long'));
        self::assertFalse($lock->isHeld('k'));
        $this->expectException(InvalidStore::class);
        new Lock(5);
    }

    public function testAStoreThatIsAwayIsAnErrorAndTheWorkIsNotDone(): void
    {
        $lock = new Lock('redis://127.0.0.1:' . Wait::freePort());
        $this->expectException(StoreUnavailable::class);
        $lock->run('k', 1.0, fn () => self::fail('it was called'));
    }

    public function testWhatTheWorkReturnedIsReturnedAlsoWhenTheStoreHasGoneInTheMeantime(): void
    {
        $server = new RedisServer();
        $lock = new Lock($server->dsn());
        self::assertSame('done', $lock->run('k', 1.0, function () use ($server): string {
            $server->stop();
            return 'done';
        }));
    }

    /**
     * @dataProvider endings
     */
    public function testALockIsReleasedAlsoWhereTheScriptEndsInTheWork(string $ending, int $status): void
    {
        $code = '$lock = new RateLimit\Lock("memory:");
            register_shutdown_function(fn () => print($lock->isHeld("k") ? " held" : " free"));
            $lock->run("k", 600.0, function () { echo "in"; ' . $ending . ' });';
        $run = Php::run($code, ['memory_limit' => '8M', 'max_execution_time' => '1']);
        self::assertSame(['in free', $status], [$run->output, $run->status], $run->errors);
    }

    public static function endings(): array
    {
        return [
            'exit' => ['exit;', 0],
            'exception' => ['throw new Exception();', 255],
            'fatal error' => ['str_repeat("x", 1 << 30);', 255],
            'time limit' => ['while (true);', 255],
        ];
    }

    public function testAnExceptionInASignalHandlerEndsTheWaitAndNothingIsHeldThen(): void
    {
        $code = 'pcntl_async_signals(true);
            pcntl_signal(SIGALRM, function () { throw new DomainException("enough"); });
            $lock = new RateLimit\Lock("memory:");
            $owner = $lock->acquire("k", 600.0);
            pcntl_alarm(1);
            try { $lock->run("k", 600.0, fn () => print("ran"), INF); } catch (DomainException $e) { echo $e->getMessage(); }
            echo $lock->release("k", $owner) && !$lock->isHeld("k") ? ", and free" : ", and held";';
        self::assertSame('enough, and free', Php::run($code)->printed());
    }

    public function testAFiberMayBeSuspendedInTheWork(): void
    {
        $lock = new Lock(Store::memory(1000));
        $fiber = new \Fiber(static fn () => $lock->run('k', self::LONG, static fn () => \Fiber::suspend('inside')));
        self::assertSame('inside', $fiber->start());
        self::assertTrue($lock->isHeld('k'));
        $fiber->resume('done');
        self::assertSame('done', $fiber->getReturn());
        self::assertFalse($lock->isHeld('k'));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::ofManyProcesses
     */
    public function testProcessesThatCountUnderALockCountRight(callable $open): void
    {
        [$dsn, $held] = $open();
        $file = Wait::folder() . '/count';
        file_put_contents($file, '0');
        $code = '[, $dsn, $file] = $argv;
            $lock = new RateLimit\Lock($dsn);
            $count = fn () => file_put_contents($file, (int) file_get_contents($file) + 1);
            $lock->run("file", 600.0, $count);
            for ($child = 0; $child < 4; $child++) {
                if (pcntl_fork() === 0) {
                    for ($turn = 0; $turn < 100; $turn++) { $lock->run("file", 600.0, $count, INF); }
                    exit(0);
                }
            }
            while (pcntl_wait($status) > 0) { echo pcntl_wexitstatus($status); }';
        self::assertSame('0000', Php::start([...Php::command(), '-r', $code, '--', $dsn, $file])->printed());
        self::assertSame('401', file_get_contents($file));
    }

    /**
     * @dataProvider \RateLimit\Tests\Stores::ofManyProcesses
     */
    public function testWhoIsKilledHoldsALockNoLongerThanItsTime(callable $open): void
    {
        [$dsn, $held] = $open();
        $code = 'echo (new RateLimit\Lock($argv[1]))->acquire("k", (float) $argv[2]); exec("kill -9 " . getmypid());';
        $run = Php::start([...Php::command(), '-r', $code, '--', $dsn, (string) self::TTL]);
        self::assertSame([SIGKILL, 32], [$run->status, strlen($run->output)], $run->errors);
        $lock = new Lock($dsn);
        self::assertNotNull($lock->acquire('k', self::LONG, 30.0));
        self::assertFalse($lock->release('k', $run->output));
    }

    public function testManyRunsTakeNoMemory(): void
    {
        $code = '$lock = new RateLimit\Lock("memory:");
            $uploads = new RateLimit\Concurrency(1, 60.0, "memory:");
            $early = 0;
            for ($turn = 0; $turn < 50000; $turn++) {
                $turn === 1000 && $early = memory_get_usage();
                $lock->run("k", 60.0, fn (string $owner) => [$owner, $turn]);
                try {
                    $uploads->run("k", fn () => $uploads->run("k", fn () => 0));
                } catch (RateLimit\Exception\LimitExceeded $refused) {
                    $refused->decision->headers();
                }
                try { $lock->run("k", 60.0, fn () => throw new Exception("k" . $turn)); } catch (Exception) {}
                unset($refused);
            }
            echo memory_get_usage() - $early < 16384 ? "flat" : "grew by " . memory_get_usage() - $early;';
        self::assertSame('flat', Php::run($code)->printed());
    }
}
