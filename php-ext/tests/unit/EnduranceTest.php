<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * Many calls, and calls in the moment in which PHP gives up.
 */
final class EnduranceTest extends TestCase
{
    private const LIMITER = 'new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1000000, 1.0, 60.0), "memory:")';

    public function testAMillionCallsWithErrorsAmongThemTakeNoMemoryAndNoFiles(): void
    {
        $run = Php::start([...Php::command(), __DIR__ . '/../fixtures/million.php', 'memory:?max_keys=1000', '1000000']);
        self::assertSame('flat', $run->printed());
    }

    /**
     * RATELIMIT_CALLS sets how many; a long run takes a million.
     */
    public function testManyCallsToRedisTakeNoMemoryAndNoFiles(): void
    {
        $server = new RedisServer();
        $calls = getenv('RATELIMIT_CALLS') ?: '50000';
        $run = Php::start([...Php::command(), __DIR__ . '/../fixtures/million.php', $server->dsn(), $calls]);
        self::assertSame('flat', $run->printed());
    }

    public function testTheMemoryLimitDuringCallsIsPhpsErrorAndTheWorkerLives(): void
    {
        $code = '$limiter = ' . self::LIMITER . ';
            register_shutdown_function(function () use ($limiter) { gc_collect_cycles(); echo "left ", $limiter->allow("after")->remaining; });
            $kept = []; while (true) { $kept[] = $limiter->allow("k"); $kept[] = $limiter->allow("k")->headers(); }';
        $this->assertEndsAs($code, ['memory_limit' => '8M'], 'Allowed memory size of 8388608 bytes exhausted');
    }

    public function testTheMemoryLimitInsideAClockIsPhpsErrorAndTheWorkerLives(): void
    {
        $code = 'final class Greedy implements RateLimit\Clock {
                public bool $greedy = true;
                function now(): float { return $this->greedy ? strlen(str_repeat("x", 1 << 30)) : 5.0; }
            }
            $limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1000000, 1.0), "memory:", clock: $clock = new Greedy);
            register_shutdown_function(function () use ($limiter, $clock) { $clock->greedy = false; echo "left ", $limiter->allow("after")->remaining; });
            $limiter->allow("k");';
        $this->assertEndsAs($code, ['memory_limit' => '8M'], 'Allowed memory size of 8388608 bytes exhausted');
    }

    public function testTheTimeLimitDuringCallsIsPhpsErrorAndTheWorkerLives(): void
    {
        $code = '$limiter = ' . self::LIMITER . ';
            register_shutdown_function(function () use ($limiter) { echo "left ", $limiter->allow("after")->remaining; });
            while (true) { $limiter->allow("k"); }';
        $this->assertEndsAs($code, ['max_execution_time' => '1'], 'Maximum execution time of 1 second exceeded');
    }

    public function testTheTimeLimitInsideAClockIsPhpsErrorAndTheWorkerLives(): void
    {
        $code = 'final class Endless implements RateLimit\Clock {
                public bool $endless = true;
                function now(): float { while ($this->endless); return 5.0; }
            }
            $limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1000000, 1.0), "memory:", clock: $clock = new Endless);
            register_shutdown_function(function () use ($limiter, $clock) { $clock->endless = false; echo "left ", $limiter->allow("after")->remaining; });
            $limiter->allow("k");';
        $this->assertEndsAs($code, ['max_execution_time' => '1'], 'Maximum execution time of 1 second exceeded');
    }

    public function testAnExitInsideAClockEndsTheScriptInOrder(): void
    {
        $code = 'final class Quitter implements RateLimit\Clock { function now(): float { exit("bye"); } }
            (new RateLimit\Limiter(RateLimit\Policy::tokenBucket(5, 1.0), "memory:", "open", clock: new Quitter))->allow("k");
            echo "not reached";';
        self::assertSame('bye', Php::run($code)->printed());
    }

    public function testASignalDuringACallNeitherBreaksNorRepeatsIt(): void
    {
        $server = new RedisServer();
        $code = 'pcntl_async_signals(true); $signals = 0;
            pcntl_signal(SIGUSR1, function () use (&$signals) { $signals++; });
            $parent = getmypid();
            if (($child = pcntl_fork()) === 0) { while (posix_kill($parent, SIGUSR1)) { usleep(100); } exit; }
            $limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(100000, 1.0, 3600.0), $argv[1]);
            for ($i = 1; $i <= 5000; $i++) { if ($limiter->allow("k")->remaining !== 100000 - $i) { echo "wrong at {$i}"; break; } }
            posix_kill($child, SIGKILL); pcntl_waitpid($child, $status);
            echo $signals > 10 ? "right" : "no signals";';
        $command = [...Php::command(['extension' => 'posix']), '-r', $code, '--', $server->dsn()];
        self::assertSame('right', Php::start($command)->printed());
    }

    public function testAHugeKeyIsTakenLikeAnyOther(): void
    {
        $code = '$limiter = ' . self::LIMITER . '; $key = str_repeat("k", 512 << 20);
            echo 1000000 - $limiter->allow($key)->remaining, 1000000 - $limiter->allow($key)->remaining;';
        self::assertSame('12', Php::run($code, ['memory_limit' => '-1'])->printed());
    }

    private function assertEndsAs(string $code, array $settings, string $error): void
    {
        $run = Php::run($code, $settings);
        self::assertSame(255, $run->status, $run->errors);
        self::assertStringContainsString($error, $run->errors);
        self::assertSame('left 999999', $run->output);
    }
}
