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
use RateLimit\Tests\Wait;

/**
 * The vectors that every language answers; `tests/vectors/README.md` defines each member.
 */
final class VectorsTest extends TestCase
{
    private const FOLDERS = __DIR__ . '/../../../tests/vectors/{policy,several}';
    private const EPOCH_US = 1_700_000_000_000_000;

    private static ?RedisServer $server = null;
    private static ?string $folder = null;

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
    public function testSharedMemoryAnswersExactly(array $case): void
    {
        self::$folder ??= Wait::folder();
        $this->play($case, Store::shared(self::$folder . '/limits', 16 << 20), $this->manualClock());
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
        $files = glob(self::FOLDERS . '/*.json', GLOB_BRACE);
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
        $limiter = static fn (array $policies) => new Limiter(array_map(self::policy(...), $policies), $store, clock: $clock);
        $current = $limiter($case['policies'] ?? [$case['policy']]);
        foreach ($case['steps'] as $number => $step) {
            if (isset($step['policy'])) {
                $current = $limiter([$step['policy']]);
            }
            $set(self::EPOCH_US + $step['at_us']);
            $key = isset($step['keys'])
                ? array_map(static fn (string $key) => "{$case['name']}: {$key}", $step['keys'])
                : $case['name'];
            $decision = match ($step['verb']) {
                'reset' => $current->reset($key),
                'refund' => $current->refund($key, $step['cost']),
                'reserve' => $current->reserve($key, $step['cost'], isset($step['max_wait_us']) ? $step['max_wait_us'] / 1e6 : INF),
                default => $current->{$step['verb']}($key, $step['cost']),
            };
            if (isset($step['expect'])) {
                $expected = self::complete($step['expect']);
                self::assertSame($expected, self::seen($decision, $expected), "{$case['name']}, step {$number}");
            } else {
                self::assertNull($decision);
            }
        }
        self::assertNotEmpty($case['steps']);
    }

    /**
     * The policy of that algorithm: `token_bucket` is `Policy::tokenBucket()`, and its numbers are named arguments. Each is
     * written as a text and read again, which must not change it.
     */
    private static function policy(array $numbers): Policy
    {
        $camel = static fn (string $name) => lcfirst(str_replace('_', '', ucwords($name, '_')));
        $make = [Policy::class, $camel($numbers['algorithm'])];
        unset($numbers['algorithm']);
        $policy = $make(...array_combine(array_map($camel, array_keys($numbers)), $numbers));
        return Policy::parse((string) $policy, $policy->name);
    }

    /**
     * What a step expects, with the members that a file may leave out.
     */
    private static function complete(array $expected): array
    {
        if (isset($expected['each'])) {
            $expected['each'] = array_map(self::complete(...), $expected['each']);
        }
        $expected += ['delay_us' => 0];
        ksort($expected);
        return $expected;
    }

    /**
     * The members of a decision that a step expects, in microseconds.
     */
    private static function seen(Decision $decision, array $expected): array
    {
        $us = static fn (float $seconds) => is_infinite($seconds) ? null : (int) round($seconds * 1e6);
        $seen = [
            'allowed' => $decision->allowed,
            'delay_us' => $us($decision->delay),
            'limit' => $decision->limit,
            'policy' => $decision->policy,
            'remaining' => $decision->remaining,
            'reset_after_us' => $us($decision->resetAfter),
            'retry_after_us' => $us($decision->retryAfter),
        ];
        if (isset($expected['each'])) {
            $seen['each'] = array_map(self::seen(...), $decision->each(), $expected['each']);
        }
        ksort($seen);
        return array_intersect_key($seen, $expected);
    }
}
