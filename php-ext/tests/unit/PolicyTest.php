<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidPolicy;
use RateLimit\Exception\RateLimitException;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;

final class PolicyTest extends TestCase
{
    private const LARGEST = 2147483647;

    /** Every constructor with numbers that are right. */
    private const RIGHT = [
        'tokenBucket' => ['capacity' => 10, 'refillRate' => 1.0],
        'fixedWindow' => ['limit' => 10, 'window' => 60.0],
        'slidingWindowLog' => ['limit' => 10, 'window' => 60.0],
        'slidingWindowCounter' => ['limit' => 10, 'window' => 60.0],
        'leakyBucket' => ['capacity' => 10, 'leakRate' => 1.0],
        'gcra' => ['limit' => 10, 'period' => 60.0],
    ];

    /**
     * @dataProvider constructors
     */
    public function testAPolicyHasALimitAndAName(string $constructor): void
    {
        $numbers = self::RIGHT[$constructor];
        $policy = Policy::$constructor(...$numbers);
        self::assertSame(['default', 10], [$policy->name, $policy->limit]);
        $named = Policy::$constructor(...$numbers, name: 'login');
        self::assertSame(['login', 10], [$named->name, $named->limit]);
        $limiter = new Limiter($named, Store::memory(), clock: new ManualClock());
        $decision = $limiter->allow('k', 10);
        self::assertSame([true, 10, 0, 'login'], [$decision->allowed, $decision->limit, $decision->remaining, $decision->policy]);
        self::assertFalse($limiter->allow('k')->allowed);
    }

    public static function constructors(): iterable
    {
        foreach (array_keys(self::RIGHT) as $constructor) {
            yield $constructor => [$constructor];
        }
    }

    /**
     * @dataProvider outOfRange
     */
    public function testANumberOutOfRangeIsRefusedByItsName(string $constructor, string $argument, mixed $number): void
    {
        try {
            Policy::$constructor(...[$argument => $number] + self::RIGHT[$constructor]);
            self::fail('it was taken');
        } catch (InvalidPolicy $refusal) {
            self::assertMatchesRegularExpression("/^{$argument} must be .+, got .+$/", $refusal->getMessage());
            self::assertInstanceOf(\InvalidArgumentException::class, $refusal);
            self::assertInstanceOf(RateLimitException::class, $refusal);
        }
    }

    public static function outOfRange(): iterable
    {
        $counts = [
            'fixedWindow' => ['limit'], 'slidingWindowLog' => ['limit'], 'slidingWindowCounter' => ['limit'],
            'leakyBucket' => ['capacity'], 'gcra' => ['limit', 'burst'],
        ];
        $seconds = ['fixedWindow' => 'window', 'slidingWindowLog' => 'window', 'slidingWindowCounter' => 'window'];
        foreach ($counts as $constructor => $arguments) {
            foreach ($arguments as $argument) {
                foreach ([0, -1, 1.5, self::LARGEST + 1, 2 ** 53, PHP_INT_MAX, PHP_INT_MIN, NAN, INF] as $number) {
                    yield "{$constructor}, {$argument} {$number}" => [$constructor, $argument, $number];
                }
            }
            yield "{$constructor}, no name" => [$constructor, 'name', ''];
            yield "{$constructor}, a name of other bytes" => [$constructor, 'name', "l\u{f6}gin"];
        }
        foreach ($seconds as $constructor => $argument) {
            foreach ([0, -5, 0.0004, 1e12, NAN, INF, -INF] as $number) {
                yield "{$constructor}, {$argument} {$number}" => [$constructor, $argument, $number];
            }
        }
        foreach ([0, -5, NAN, INF, -INF] as $number) {
            yield "leakyBucket, leakRate {$number}" => ['leakyBucket', 'leakRate', $number];
            yield "gcra, period {$number}" => ['gcra', 'period', $number];
        }
    }

    public function testTheLargestNumbersAreTakenOrRefusedAndNeverWrap(): void
    {
        $limiter = new Limiter(Policy::gcra(1, 86400.0), Store::memory(), clock: new ManualClock());
        foreach ([200_000_000, self::LARGEST] as $cost) {
            $decision = $limiter->allow('k', $cost);
            self::assertSame([false, INF], [$decision->allowed, $decision->retryAfter]);
        }
        self::assertTrue($limiter->allow('k')->allowed);
        self::assertSame(86400.0, $limiter->allow('k')->retryAfter);
        self::assertSame(self::LARGEST, Policy::fixedWindow(self::LARGEST, 1.0)->limit);
    }

    public function testVeryHighRatesLetExactlyTheBurstThroughInOneInstant(): void
    {
        foreach ([Policy::gcra(2000, 1.0, 20), Policy::tokenBucket(20, 2000.0), Policy::leakyBucket(20, 2000.0)] as $policy) {
            $limiter = new Limiter($policy, Store::memory(), clock: new ManualClock());
            $passed = 0;
            for ($call = 0; $call < 100; $call++) {
                $passed += (int) $limiter->allow('k')->allowed;
            }
            self::assertSame(20, $passed, (string) $policy);
        }
    }

    public function testTheBurstOfGcraIsTheLimitUnlessItSaysOtherwise(): void
    {
        self::assertSame([10, 10, 1, 50], [
            Policy::gcra(10, 1.0)->limit,
            Policy::gcra(10, 1.0, null)->limit,
            Policy::gcra(10, 1.0, 1)->limit,
            Policy::gcra(10, 1.0, burst: 50)->limit,
        ]);
    }

    public function testAnAlignedWindowStandsWhereTheClockSays(): void
    {
        $clock = new ManualClock(1_700_000_039.5);
        $limiter = new Limiter(Policy::fixedWindow(1, 60.0, aligned: true), Store::memory(), clock: $clock);
        self::assertSame(0.5, $limiter->allow('k')->resetAfter);
        $clock->advance(0.5);
        self::assertSame(60.0, $limiter->allow('k')->resetAfter);
    }

    /**
     * @dataProvider texts
     */
    public function testATextIsReadAsThePolicyItNamesAndPrintedAsOneThatReadsTheSame(string $text, string $printed): void
    {
        $policy = Policy::parse($text, 'api');
        self::assertSame([$printed, 'api'], [(string) $policy, $policy->name]);
        self::assertEquals($policy, Policy::parse((string) $policy, name: 'api'));
        self::assertSame($printed, (string) Policy::parse($printed));
        self::assertInstanceOf(\Stringable::class, $policy);
    }

    public static function texts(): iterable
    {
        $texts = [
            '100/m' => (string) Policy::fixedWindow(100, 60),
            '5 per 10 minutes' => (string) Policy::fixedWindow(5, 600),
            '3/250ms' => (string) Policy::fixedWindow(3, 0.25),
            '100/h aligned' => (string) Policy::fixedWindow(100, 3600, true),
            '100/h sliding' => (string) Policy::slidingWindowCounter(100, 3600),
            '100/h log' => (string) Policy::slidingWindowLog(100, 3600),
            '10/s burst 20' => (string) Policy::gcra(10, 1, 20),
            '10/s gcra' => (string) Policy::gcra(10, 1),
            '20 burst, 5/s' => (string) Policy::tokenBucket(20, 5),
            '20 burst, 0.5/10s continuous' => (string) Policy::tokenBucket(20, 0.5, 10, true),
            '10 burst, 2/s leaky' => (string) Policy::leakyBucket(10, 2),
            '1000/day aligned Europe/Berlin' => '1000/day aligned Europe/Berlin',
        ];
        foreach ($texts as $text => $printed) {
            yield $text => [$text, $printed];
        }
    }

    /**
     * @dataProvider faults
     */
    public function testAFaultInATextIsPointedAt(string $text, string $message): void
    {
        $this->expectException(InvalidPolicy::class);
        $this->expectExceptionMessage($message);
        Policy::parse($text);
    }

    public static function faults(): iterable
    {
        yield 'nothing' => ['', 'text "" needs a number of units at character 1, where there is the end'];
        yield 'no unit' => ['10/fortnight', 'text "10/fortnight" needs a unit of time'];
        yield 'a word too many' => ['10/s quickly', 'at character 6, where there is "quickly"'];
        yield 'bytes that are no text' => ["10/s \xff\0", 'at character 6'];
        yield 'a limit of nothing' => ['0/s', 'limit must be between 1 and 2147483647, got 0'];
        yield 'a window of nothing' => ['1/0s', 'window must be'];
        yield 'no time zone' => ['1/day aligned Mars/Base', 'zone must be a time zone such as Europe/Berlin'];
    }

    public function testDaysOfATimeZoneEndAtItsMidnight(): void
    {
        $clock = new ManualClock(1_700_000_000.0); // 14 November 2023, 23:13:20 in Berlin.
        $limiter = new Limiter(Policy::parse('2/day aligned Europe/Berlin'), Store::memory(), clock: $clock);
        self::assertSame(46 * 60 + 40.0, $limiter->allow('k', 2)->resetAfter);
        $clock->advance(46 * 60 + 40.0);
        self::assertSame(86400.0, $limiter->allow('k')->resetAfter);
    }

    public function testAPolicyCannotBeMadeByItsConstructorNorChanged(): void
    {
        try {
            new Policy();
            self::fail('it was made');
        } catch (\Error $error) {
            self::assertStringStartsWith('Call to private RateLimit\Policy::__construct()', $error->getMessage());
        }
        $this->expectExceptionMessage('Cannot modify readonly property RateLimit\Policy::$limit');
        Policy::gcra(1, 1.0)->limit = 2;
    }

    public function testALoweredLimitHoldsAtOnceAndARaisedOneGrantsNothing(): void
    {
        $store = Store::memory();
        $clock = new ManualClock();
        $of = static fn (int $limit) => new Limiter(Policy::fixedWindow($limit, 60.0), $store, clock: $clock);
        $of(100)->allow('lowered', 50);
        $lowered = $of(10)->allow('lowered');
        self::assertSame([false, 10, 0], [$lowered->allowed, $lowered->limit, $lowered->remaining]);
        $of(10)->allow('raised', 10);
        self::assertSame(89, $of(100)->allow('raised')->remaining);
    }
}
