<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Clock;
use RateLimit\Decision;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;

/**
 * The vectors that every language answers; `tests/vectors/README.md` defines each member.
 */
final class VectorsTest extends TestCase
{
    private const FOLDER = __DIR__ . '/../../../tests/vectors/policy';
    private const EPOCH_US = 1_700_000_000_000_000;

    private static ?RedisServer $server = null;

    public static function tearDownAfterClass(): void
    {
        self::$server = null;
    }

    /**
     * @dataProvider cases
     */
    public function testMemoryAnswersExactly(array $case): void
    {
        $this->play($case, Store::memory(), $this->manualClock());
    }

    /**
     * @dataProvider cases
     */
    public function testRedisAnswersExactly(array $case): void
    {
        self::$server ??= new RedisServer();
        $this->play($case, Store::open(self::$server->dsn()), $this->manualClock());
    }

    /**
     * @dataProvider cases
     */
    public function testAClockWrittenInPhpGivesTheSameAnswers(array $case): void
    {
        $clock = new class () implements Clock {
            public int $nowUs = 0;

            public function now(): float
            {
                return $this->nowUs / 1e6;
            }
        };
        $this->play($case, Store::memory(), [$clock, static fn (int $nowUs) => $clock->nowUs = $nowUs]);
    }

    public static function cases(): iterable
    {
        $files = glob(self::FOLDER . '/*.json');
        self::assertNotEmpty($files);
        foreach ($files as $file) {
            foreach (json_decode(file_get_contents($file), true, flags: JSON_THROW_ON_ERROR)['cases'] as $case) {
                yield basename($file, '.json') . ': ' . $case['name'] => [$case];
            }
        }
    }

    /**
     * @return array{Clock, callable(int): mixed} the clock, and what puts it at an instant
     */
    private function manualClock(): array
    {
        $clock = new ManualClock(self::EPOCH_US / 1e6);
        $nowUs = self::EPOCH_US;
        return [$clock, static function (int $atUs) use ($clock, &$nowUs): void {
            $clock->advance(($atUs - $nowUs) / 1e6);
            $nowUs = $atUs;
        }];
    }

    private function play(array $case, Store $store, array $clock): void
    {
        [$clock, $set] = $clock;
        $limiter = static fn (array $numbers) => new Limiter(self::policy($numbers), $store, clock: $clock);
        $current = $limiter($case['policy']);
        foreach ($case['steps'] as $number => $step) {
            if (isset($step['policy'])) {
                $current = $limiter($step['policy']);
            }
            $set(self::EPOCH_US + $step['at_us']);
            if ($step['verb'] === 'reset') {
                $current->reset($case['name']);
                continue;
            }
            $decision = $current->{$step['verb']}($case['name'], $step['cost']);
            self::assertSame($step['expect'], self::seen($decision, $step['expect']), "{$case['name']}, step {$number}");
        }
        self::assertNotEmpty($case['steps']);
    }

    /**
     * The policy of that algorithm: `token_bucket` is `Policy::tokenBucket()`, and its numbers are named arguments.
     */
    private static function policy(array $numbers): Policy
    {
        $camel = static fn (string $name) => lcfirst(str_replace('_', '', ucwords($name, '_')));
        $make = [Policy::class, $camel($numbers['algorithm'])];
        unset($numbers['algorithm']);
        return $make(...array_combine(array_map($camel, array_keys($numbers)), $numbers));
    }

    /**
     * The members of a decision that a step expects, in microseconds.
     */
    private static function seen(Decision $decision, array $expected): array
    {
        $us = static fn (float $seconds) => is_infinite($seconds) ? null : (int) round($seconds * 1e6);
        $seen = [
            'allowed' => $decision->allowed,
            'limit' => $decision->limit,
            'remaining' => $decision->remaining,
            'retry_after_us' => $us($decision->retryAfter),
            'reset_after_us' => $us($decision->resetAfter),
            'delay_us' => $us($decision->delay),
            'policy' => $decision->policy,
        ];
        return array_replace($expected, array_intersect_key($seen, $expected));
    }
}
