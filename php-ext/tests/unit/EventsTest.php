<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Clock;
use RateLimit\Decision;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;

use function RateLimit\metrics;

/**
 * Listeners hear of decisions and of failures, and change nothing.
 */
final class EventsTest extends TestCase
{
    private const KEY = 'ada@example.org';

    public function testAListenerIsToldEachDecisionWithItsNumbersAndNeverTheKey(): void
    {
        $server = new RedisServer();
        $policy = Policy::tokenBucket(3, 1.0, 3600.0, name: 'login');
        $limiter = new Limiter($policy, $server->dsn(), hashKeys: true, secret: 'secret');
        $told = [];
        $limiter->onDecision(static function (Decision $decision, array $context) use (&$told): void {
            $told[] = [$decision, $context];
        });
        $decisions = [
            $limiter->allow(self::KEY, 2),
            $limiter->peek(self::KEY),
            $limiter->reserve(self::KEY),
            $limiter->allow(self::KEY),
            ...$limiter->allowMany([['another', 1], ['another', 9]]),
        ];
        self::assertSame(
            ['allow', 'peek', 'reserve', 'allow', 'allow', 'allow'],
            array_column(array_column($told, 1), 'verb'),
        );
        foreach ($told as $number => [$decision, $context]) {
            self::assertEquals($decisions[$number], $decision);
            $shared = ['allowed', 'limit', 'remaining', 'source', 'degraded', 'policy', 'delay'];
            foreach ($shared as $name) {
                self::assertSame($decision->$name, $context[$name], $name);
            }
            self::assertSame($decision->resetAfter, $context['reset_after']);
            self::assertSame($decision->retryAfter === INF ? null : $decision->retryAfter, $context['retry_after']);
            self::assertSame('redis', $context['store']);
            self::assertGreaterThan(0.0, $context['duration']);
        }
        self::assertSame([2, 1, 1, 1, 1, 9], array_column(array_column($told, 1), 'cost'));
        self::assertStringNotContainsString('ada', print_r($told, true));
        [$first, $another] = [$told[0][1]['key'], $told[4][1]['key']];
        self::assertMatchesRegularExpression('/^[\w-]{16}$/', $first);
        self::assertNotSame($first, $another);
        self::assertSame($first, $told[3][1]['key']);
        $keys = implode(' ', $server->connection()->keys('*'));
        self::assertStringContainsString('{#' . $first, $keys, 'what is stored can be found by it');
    }

    public function testAStoppedServerIsToldAndThenWhatTheRuleHasMadeOfIt(): void
    {
        $server = new RedisServer();
        $limiter = new Limiter(Policy::parse('3/h', name: 'login'), $server->dsn(), onError: 'open');
        $told = [];
        $limiter->onStoreError(static function (StoreUnavailable $error, array $context) use (&$told): void {
            $told[] = ["{$context['verb']} {$error->kind} {$context['kind']} {$context['policy']}", $error->getMessage()];
        });
        $limiter->onDecision(static function (Decision $decision, array $context) use (&$told): void {
            $told[] = ["{$context['verb']} {$context['source']}", var_export($context['degraded'], true)];
        });
        $server->stop();
        $limiter->allow(self::KEY);
        try {
            $limiter->reset(self::KEY);
            self::fail('nobody there');
        } catch (StoreUnavailable) {
        }
        self::assertSame(['allow refused refused login', 'allow fail_open', 'reset refused refused login'], array_column($told, 0));
        self::assertStringContainsString('127.0.0.1', $told[0][1]);
        self::assertSame('true', $told[1][1]);
        self::assertStringNotContainsString('ada', print_r($told, true));
    }

    public function testWhatAListenerThrowsIsAWarningAndChangesNothing(): void
    {
        $limiter = $this->limiter();
        $heard = 0;
        $limiter->onDecision(static fn () => throw new \LogicException('not today'));
        $limiter->onDecision(static function () use (&$heard): void {
            $heard++;
        });
        $before = $this->failures();
        $warnings = [];
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings[] = [$level, $message];

            return true;
        });
        try {
            self::assertSame([2, 1], [$limiter->allow('k')->remaining, $limiter->allow('k')->remaining]);
        } finally {
            restore_error_handler();
        }
        self::assertSame(2, $heard, 'the next listener is told as if nothing had been');
        self::assertSame([E_WARNING, E_WARNING], array_column($warnings, 0));
        self::assertStringEndsWith('a listener threw LogicException: not today', $warnings[0][1]);
        self::assertSame($before + 2, $this->failures());
    }

    public function testAnApplicationThatMakesExceptionsOfWarningsGetsItsDecisionAllTheSame(): void
    {
        $log = tempnam(sys_get_temp_dir(), 'log');
        $logged = ini_set('error_log', $log);
        set_error_handler(static fn (int $level, string $message) => throw new \ErrorException($message, 0, $level));
        try {
            $limiter = $this->limiter();
            $limiter->onDecision(static fn () => throw new \LogicException('not today'));
            self::assertSame(2, $limiter->allow('k')->remaining);
            self::assertStringContainsString('a listener threw LogicException: not today', file_get_contents($log));
        } finally {
            restore_error_handler();
            ini_set('error_log', (string) $logged);
            unlink($log);
        }
    }

    public function testAListenerMayAskTheSameLimiterOfWhichNothingIsTold(): void
    {
        $server = new RedisServer();
        foreach ([Store::memory(), $server->dsn(), 'shared:'] as $store) {
            $limiter = $this->limiter($store);
            $limiter->reset('from the listener');
            $limiter->reset('k');
            $heard = 0;
            $limiter->onDecision(static function () use (&$heard, $limiter): void {
                $heard++;
                $limiter->allow('from the listener');
            });
            self::assertSame(2, $limiter->allow('k')->remaining);
            self::assertSame(1, $heard);
            self::assertSame(2, $limiter->peek('from the listener')->remaining);
        }
    }

    public function testAWaitIsToldStepByStepAndAListenerMayBeAddedByAListener(): void
    {
        $limiter = new Limiter(Policy::fixedWindow(1, 10.0), Store::memory(), clock: new ManualClock());
        $told = [];
        $limiter->onDecision(static function (Decision $decision, array $context) use (&$told, $limiter): void {
            if ($told === []) {
                $limiter->onDecision(static function () use (&$told): void {
                    $told[] = 'added';
                });
            }
            $told[] = $context['verb'] . ' ' . ($decision->allowed ? 'allowed' : 'denied');
        });
        $limiter->allow('k');
        $limiter->wait('k');
        self::assertSame(['allow allowed', 'allow denied', 'added', 'allow allowed', 'added'], $told);
    }

    public function testAClockWrittenInPhpGoesWithListeners(): void
    {
        $clock = new class () implements Clock {
            public function now(): float
            {
                return 1_700_000_000.0;
            }
        };
        $limiter = new Limiter(Policy::fixedWindow(1, 10.0), Store::memory(), clock: $clock);
        $waits = [];
        $limiter->onDecision(static function (Decision $decision) use (&$waits): void {
            $waits[] = $decision->retryAfter;
        });
        $limiter->allow('k');
        $limiter->allow('k');
        self::assertSame([0.0, 10.0], $waits);
    }

    public function testAnExitInAListenerEndsTheScriptAndAFatalErrorLeavesTheNextRequestItsListeners(): void
    {
        $script = <<<'PHP'
            $limiter = new RateLimit\Limiter(RateLimit\Policy::parse('3/h'), RateLimit\Store::memory());
            $limiter->onDecision(static function (): void { echo "heard\n"; exit(3); });
            $limiter->allow('k');
            echo "not reached\n";
            PHP;
        $run = Php::start([...Php::command(), '-r', $script]);
        self::assertSame([3, "heard\n"], [$run->status, $run->output]);
    }

    public function testAnExitInAListenerGivesBackTheSlotOfAWait(): void
    {
        $server = new RedisServer();
        $script = <<<'PHP'
            $limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1, 1.0, 60.0), $argv[1]);
            $limiter->allow('k');
            $limiter->onDecision(static function (): void { exit(3); });
            $limiter->wait('k');
            PHP;
        $run = Php::start([...Php::command(), '-r', $script, '--', $server->dsn()]);
        self::assertSame([3, ''], [$run->status, $run->output . $run->errors]);
        $limiter = new Limiter(Policy::tokenBucket(1, 1.0, 60.0), $server->dsn());
        self::assertEqualsWithDelta(60.0, $limiter->allow('k')->retryAfter, 30.0, 'one token is owed and not two');
    }

    public function testWhatCannotBeCalledIsATypeError(): void
    {
        $this->expectException(\TypeError::class);
        $this->expectExceptionMessage('listener must be of type callable, string given');
        $this->limiter()->onDecision('no such function');
    }

    private function limiter(mixed $store = null): Limiter
    {
        return new Limiter(Policy::tokenBucket(3, 1.0, 3600.0), $store ?? Store::memory());
    }

    private function failures(): int
    {
        preg_match('/^rate_limiter_callback_failures_total (\d+)/m', metrics(), $line);

        return (int) ($line[1] ?? 0);
    }
}
