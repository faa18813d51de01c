<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Clock;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Exception\WaitTooLong;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * Sleeping until a call passes. PHPUnit turns every notice into an exception.
 */
final class WaitTest extends TestCase
{
    /** Seconds that a machine under load may add. */
    private const PATIENCE = 0.5;

    /**
     * @dataProvider policies
     */
    public function testAManualClockMovesOnInsteadOfSleeping(Policy|array $policies, float $passes): void
    {
        $clock = new ManualClock();
        $limiter = new Limiter($policies, Store::memory(), clock: $clock);
        self::assertTrue($limiter->allow('k', 2)->allowed);
        $started = microtime(true);
        $decision = $limiter->wait('k', 2);
        self::assertTrue($decision->allowed);
        self::assertSame($passes, $clock->now() - 1_700_000_000.0);
        self::assertLessThan(self::PATIENCE, microtime(true) - $started);
    }

    public static function policies(): array
    {
        return [
            'token bucket' => [Policy::tokenBucket(2, 1.0, 600.0), 1200.0],
            'leaky bucket, a queue' => [Policy::leakyBucket(4, 0.5), 4.0],
            'leaky bucket, a full queue' => [Policy::leakyBucket(2, 0.5), 4.0],
            'GCRA' => [Policy::gcra(2, 60.0), 60.0],
            'fixed window' => [Policy::fixedWindow(2, 3600.0), 3600.0],
            'sliding window log' => [Policy::slidingWindowLog(3, 10.5), 10.5],
            'several' => [[Policy::gcra(2, 60.0, name: 'a'), Policy::fixedWindow(2, 100.0, name: 'b')], 100.0],
            'several that reserve' => [[Policy::gcra(2, 60.0, name: 'a'), Policy::tokenBucket(2, 1.0, 40.0, name: 'b')], 80.0],
        ];
    }

    public function testWhatPassesAtOnceDoesNotWait(): void
    {
        $clock = new ManualClock();
        $limiter = new Limiter(Policy::gcra(5, 1.0), Store::memory(), clock: $clock);
        self::assertSame([true, 0.0, 4], [($decision = $limiter->wait('k'))->allowed, $decision->delay, $decision->remaining]);
        self::assertSame(1_700_000_000.0, $clock->now());
    }

    /**
     * @dataProvider policies
     */
    public function testAWaitThatWouldBeTooLongFailsAtOnceAndTakesNothing(Policy|array $policies, float $passes): void
    {
        $clock = new ManualClock();
        $limiter = new Limiter($policies, Store::memory(), clock: $clock);
        $limiter->allow('k', 2);
        $before = $limiter->peek('k');
        foreach ([0.0, $passes - 0.000001] as $maxWait) {
            try {
                $limiter->wait('k', 2, $maxWait);
                self::fail('it waited');
            } catch (WaitTooLong $refusal) {
                self::assertStringContainsString('lets nothing pass in time', $refusal->getMessage());
            }
        }
        self::assertEquals($before, $limiter->peek('k'));
        self::assertSame(1_700_000_000.0, $clock->now());
        self::assertTrue($limiter->wait('k', 2, $passes)->allowed);
    }

    public function testACostThatNeverPassesFailsAtOnceWhateverTheLongestWait(): void
    {
        $server = new RedisServer();
        foreach ([Store::memory(), $server->dsn()] as $store) {
            foreach ([Policy::tokenBucket(5, 1.0), Policy::fixedWindow(5, 60.0), Policy::leakyBucket(5, 1.0)] as $policy) {
                $limiter = new Limiter($policy, $store);
                $limiter->peek('k');
                $took = [];
                foreach ([INF, 1.0, INF, 1.0, INF] as $maxWait) {
                    $started = microtime(true);
                    try {
                        $limiter->wait('k', 6, $maxWait);
                        self::fail('it waited');
                    } catch (WaitTooLong $refusal) {
                        $took[] = microtime(true) - $started;
                        self::assertStringContainsString('the cost 6 is above the limit 5', $refusal->getMessage());
                    }
                }
                // A machine under load may hold up one of them.
                self::assertLessThan(0.05, min($took));
                self::assertTrue($limiter->allow('k', 5)->allowed);
            }
        }
    }

    public function testARealWaitIsLongEnoughAndNotMuchLonger(): void
    {
        $server = new RedisServer();
        foreach ([Store::memory(), $server->dsn()] as $store) {
            foreach ([Policy::gcra(1, 0.1234567), Policy::fixedWindow(1, 0.1234567)] as $policy) {
                $limiter = new Limiter($policy, $store);
                $limiter->allow('k');
                $started = microtime(true);
                self::assertTrue($limiter->wait('k', maxWait: 5.0)->allowed);
                $waited = microtime(true) - $started;
                self::assertGreaterThan(0.12, $waited);
                self::assertLessThan(0.12 + self::PATIENCE, $waited);
            }
        }
    }

    public function testAClockWrittenInPhpIsAskedAgainAfterARealSleep(): void
    {
        $clock = new class () implements Clock {
            public int $asked = 0;

            public function now(): float
            {
                $this->asked++;
                return microtime(true);
            }
        };
        foreach ([Policy::fixedWindow(1, 0.1), Policy::gcra(1, 0.1)] as $policy) {
            $limiter = new Limiter($policy, Store::memory(), clock: $clock);
            $limiter->allow('k');
            $clock->asked = 0;
            $started = microtime(true);
            self::assertTrue($limiter->wait('k', maxWait: 5.0)->allowed);
            self::assertGreaterThan(0.09, microtime(true) - $started);
            self::assertGreaterThan(1, $clock->asked);
        }
    }

    public function testAnExceptionInAClockEndsTheWait(): void
    {
        $clock = new class () implements Clock {
            public int $left = 2;

            public function now(): float
            {
                return $this->left-- > 0 ? 1_700_000_000.0 : throw new \DomainException('stopped');
            }
        };
        $limiter = new Limiter(Policy::fixedWindow(1, 0.01), Store::memory(), clock: $clock);
        $limiter->allow('k');
        $this->expectExceptionObject(new \DomainException('stopped'));
        $limiter->wait('k');
    }

    public function testAnExceptionInAClockAfterTheSleepGivesTheSlotBack(): void
    {
        $clock = new class () implements Clock {
            public int $left = 2;

            public function now(): float
            {
                return $this->left-- !== 0 ? 1_700_000_000.0 : throw new \DomainException('stopped');
            }
        };
        $limiter = new Limiter(Policy::gcra(1, 0.05), Store::memory(), clock: $clock);
        $limiter->allow('k');
        try {
            $limiter->wait('k');
            self::fail('it passed');
        } catch (\DomainException) {
            self::assertSame(0.05, $limiter->reserve('k')->delay);
        }
    }

    public function testAStoreThatIsAwayIsAnErrorAndNoWait(): void
    {
        $limiter = new Limiter(Policy::gcra(1, 1.0), 'redis://127.0.0.1:' . Wait::freePort());
        $this->expectException(StoreUnavailable::class);
        $limiter->wait('k');
    }

    public function testTheOpenRuleWaitsForNothing(): void
    {
        $limiter = new Limiter(Policy::gcra(1, 1000.0), 'redis://127.0.0.1:' . Wait::freePort(), 'open');
        self::assertSame(['fail_open', 'fail_open'], [$limiter->wait('k')->source, $limiter->wait('k')->source]);
    }

    public function testSignalHandlersRunDuringTheWaitAndItGoesOn(): void
    {
        $code = 'pcntl_async_signals(true);
            pcntl_signal(SIGALRM, function () use (&$started) { echo microtime(true) - $started < 1.4 ? "during " : "late "; });
            $limiter = new RateLimit\Limiter(RateLimit\Policy::gcra(1, 1.5), "memory:");
            $limiter->allow("k");
            $started = microtime(true); pcntl_alarm(1);
            $limiter->wait("k");
            echo microtime(true) - $started > 1.49 ? "and after" : "and too soon";';
        self::assertSame('during and after', Php::run($code)->printed());
    }

    public function testAnExceptionInASignalHandlerEndsTheWait(): void
    {
        $code = 'pcntl_async_signals(true);
            pcntl_signal(SIGALRM, function () { throw new DomainException("enough"); });
            $limiter = new RateLimit\Limiter(RateLimit\Policy::fixedWindow(1, 3600.0), "memory:");
            $limiter->allow("k");
            $started = microtime(true);
            pcntl_alarm(1);
            try { $limiter->wait("k"); echo "passed"; } catch (DomainException $e) { echo $e->getMessage(), $e->getPrevious() === null ? "" : " and more"; }
            echo microtime(true) - $started < 3 && $limiter->peek("k")->remaining === 0 ? "" : " too late";
            try { (fn () => $limiter->wait("k", maxWait: 0.5))(); } catch (RateLimit\Exception\WaitTooLong) { echo ", and the limiter lives"; }';
        self::assertSame('enough, and the limiter lives', Php::run($code)->printed());
    }

    public function testAnExitInASignalHandlerEndsTheScriptInOrder(): void
    {
        $code = 'pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { exit("bye"); });
            $limiter = new RateLimit\Limiter([RateLimit\Policy::gcra(1, 3600.0, name: "a"), RateLimit\Policy::gcra(1, 60.0, name: "b")], "memory:");
            $limiter->allow("k"); pcntl_alarm(1); $limiter->wait(["a" => "k", "b" => "k"]); echo "passed";';
        self::assertSame('bye', Php::run($code)->printed());
    }

    /**
     * @dataProvider endings
     */
    public function testAWaitThatASignalHandlerGivesUpGivesItsSlotBack(callable $open, string $ending, int $status): void
    {
        $server = $open();
        // By a clock that stands still what is taken is exact, while the sleep is real.
        $code = 'pcntl_async_signals(true);
            pcntl_signal(SIGALRM, function () { echo "ended "; ' . $ending . ' });
            $clock = new class implements RateLimit\Clock { public function now(): float { return 1_700_000_000.0; } };
            $policies = [RateLimit\Policy::gcra(1, 60.0, name: "a"), RateLimit\Policy::tokenBucket(1, 1.0, 40.0, name: "b")];
            $limiter = new RateLimit\Limiter($policies, $argv[1], clock: $clock);
            $limiter->allow("k");
            register_shutdown_function(function () use ($limiter) {
                echo json_encode(array_map(fn ($decision) => $decision->delay, $limiter->reserve("k")->each())), " ";
                echo json_encode(array_map(fn ($decision) => $decision->delay, $limiter->reserve("k")->each()));
            });
            pcntl_alarm(1);
            try { $limiter->wait(["a" => "k", "b" => "k"]); echo "passed"; } catch (DomainException $e) { echo $e->getMessage(), " "; }';
        $dsn = $server instanceof RedisServer ? $server->dsn() : 'memory:';
        $run = Php::start([...Php::command(['memory_limit' => '8M', 'max_execution_time' => '1']), '-r', $code, '--', $dsn]);
        self::assertSame($status, $run->status, $run->errors);
        self::assertMatchesRegularExpression('/^ended (enough )?\[60,40\] \[120,80\]$/', str_replace('.0', '', $run->output));
    }

    public static function endings(): array
    {
        $memory = static fn () => null;
        $redis = static fn () => new RedisServer();
        $throw = 'throw new DomainException("enough");';
        $fatal = 'str_repeat("x", 1 << 30);';
        return [
            'an exception' => [$memory, $throw, 0],
            'an exception, on Redis' => [$redis, $throw, 0],
            'an exit, on Redis' => [$redis, 'exit(3);', 3],
            'a fatal error' => [$memory, $fatal, 255],
            'a fatal error, on Redis' => [$redis, $fatal, 255],
            // PHP holds its own signal for the limit back until the handler has returned.
            'the time limit' => [$memory, 'while (getrusage()["ru_utime.tv_sec"] < 2);', 255],
        ];
    }

    public function testAFatalErrorInASignalHandlerIsPhpsErrorAndTheWorkerLives(): void
    {
        $code = 'pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { str_repeat("x", 1 << 30); });
            $limiter = new RateLimit\Limiter(RateLimit\Policy::gcra(10, 1.0, 1), "memory:");
            register_shutdown_function(function () use ($limiter) { echo $limiter->wait("other")->remaining; });
            for ($i = 0; $i < 60; $i++) { $limiter->reserve("k"); }
            pcntl_alarm(1); $limiter->wait("k"); echo "passed";';
        $run = Php::run($code, ['memory_limit' => '8M']);
        self::assertSame([255, '0'], [$run->status, $run->output], $run->errors);
        self::assertStringContainsString('Allowed memory size of 8388608 bytes exhausted', $run->errors);
    }

    public function testWithoutAsyncSignalsAHandlerRunsAfterTheWait(): void
    {
        $code = 'pcntl_signal(SIGALRM, function () { echo "handled"; });
            $limiter = new RateLimit\Limiter(RateLimit\Policy::gcra(1, 1.2), "memory:");
            $limiter->allow("k"); $started = microtime(true); pcntl_alarm(1);
            $limiter->wait("k"); echo microtime(true) - $started > 1.19 ? "waited " : "too short "; pcntl_signal_dispatch();';
        self::assertSame('waited handled', Php::run($code)->printed());
    }

    public function testTheTimeLimitOfTheScriptCountsNoWaits(): void
    {
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::gcra(1, 1.3), "memory:");
            $limiter->allow("k"); $limiter->wait("k"); echo "passed";';
        self::assertSame('passed', Php::run($code, ['max_execution_time' => '1'])->printed());
    }

    public function testOfManyWhoWaitNoMorePassThanMay(): void
    {
        $server = new RedisServer();
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::fixedWindow(5, 0.4), $argv[1]);
            $limiter->allow("k", 5); $pipes = [];
            for ($i = 0; $i < 10; $i++) {
                $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                if (pcntl_fork() === 0) { $limiter->wait("k"); fwrite($pair[1], microtime(true)); exit; }
                fclose($pair[1]); $pipes[] = $pair[0];
            }
            $at = array_map(fn ($pipe) => (float) stream_get_contents($pipe), $pipes);
            sort($at); echo $at[0] > 0 && $at[5] - $at[0] > 0.3 ? "five at a time" : json_encode($at);';
        self::assertSame('five at a time', Php::start([...Php::command(), '-r', $code, '--', $server->dsn()])->printed());
    }
}
