<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Clock;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;

final class ClockTest extends TestCase
{
    public function testAManualClockMovesOnlyWhenTold(): void
    {
        $clock = new ManualClock();
        self::assertInstanceOf(Clock::class, $clock);
        self::assertSame(1_700_000_000.0, $clock->now());
        $clock->advance(0.000001);
        self::assertSame(1_700_000_000.000001, $clock->now());
        $clock->advance(-10.000001);
        self::assertSame(1_699_999_990.0, $clock->now());
        self::assertSame(5.5, (new ManualClock('5.5'))->now());
    }

    public function testAnInstantThatIsNoneIsRefused(): void
    {
        foreach ([NAN, INF, -1.0] as $now) {
            try {
                new ManualClock($now);
                self::fail('it was taken');
            } catch (InvalidArgument $refusal) {
                self::assertStringStartsWith('now must be seconds since 1970, got ', $refusal->getMessage());
            }
        }
        $this->expectExceptionObject(new InvalidArgument('seconds must be finite, got NAN'));
        (new ManualClock())->advance(NAN);
    }

    public function testALimiterFollowsItsClock(): void
    {
        $server = new RedisServer();
        foreach ([Store::memory(), $server->dsn()] as $store) {
            $clock = new ManualClock();
            $limiter = new Limiter(Policy::tokenBucket(1, 1.0, 10.0), $store, clock: $clock);
            self::assertTrue($limiter->allow('k')->allowed);
            self::assertSame(10.0, $limiter->allow('k')->retryAfter);
            $clock->advance(9.999999);
            self::assertSame(0.000001, $limiter->allow('k')->retryAfter);
            $clock->advance(0.000001);
            self::assertTrue($limiter->allow('k')->allowed);
        }
    }

    public function testAnExceptionInAClockReachesTheCallerBeforeTheStoreIsAsked(): void
    {
        $server = new RedisServer();
        $clock = new class () implements Clock {
            public bool $broken = true;

            public function now(): float
            {
                return $this->broken ? throw new \DomainException('stopped') : 1_700_000_000;
            }
        };
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), $server->dsn(), 'open', clock: $clock);
        foreach (['allow', 'peek'] as $verb) {
            try {
                $limiter->$verb('k');
                self::fail('it was decided');
            } catch (\DomainException $stopped) {
                self::assertSame('stopped', $stopped->getMessage());
                self::assertNull($stopped->getPrevious());
            }
        }
        self::assertSame(0, $server->calls('evalsha'));
        $clock->broken = false;
        self::assertSame(9, $limiter->allow('k')->remaining);
    }

    /**
     * @dataProvider impossibleInstants
     */
    public function testAClockThatTellsNoInstantIsAnError(float $now): void
    {
        $clock = $this->createStub(Clock::class);
        $clock->method('now')->willReturn($now);
        $this->expectException(InvalidArgument::class);
        $this->expectExceptionMessage('now must be seconds since 1970, got ');
        (new Limiter(Policy::tokenBucket(10, 1.0), Store::memory(), clock: $clock))->allow('k');
    }

    public static function impossibleInstants(): array
    {
        return [[NAN], [INF], [-0.001]];
    }

    public function testAClockMayAskTheLimiterItself(): void
    {
        $clock = new class () implements Clock {
            public ?Limiter $limiter = null;

            public function now(): float
            {
                $this->limiter?->peek('other');
                return 1_700_000_000.0;
            }
        };
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), $store = Store::memory(), clock: $clock);
        $clock->limiter = new Limiter(Policy::tokenBucket(10, 1.0), $store);
        self::assertSame(9, $limiter->allow('k')->remaining);
    }

    public function testALimiterKeepsItsClock(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory(), clock: new class () implements Clock {
            public function now(): float
            {
                return 5.0;
            }
        });
        gc_collect_cycles();
        self::assertSame(9, $limiter->allow('k')->remaining);
    }
}
