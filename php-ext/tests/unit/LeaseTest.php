<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Tests\RedisServer;

/**
 * Units that a host takes in advance.
 */
final class LeaseTest extends TestCase
{
    public function testLeasedUnitsAreSpentHereByEveryLimiterAndGoBack(): void
    {
        $redis = new RedisServer();
        $clock = new ManualClock(1_700_000_000.0);
        $policy = Policy::fixedWindow(100, 3600.0);
        $sources = [];
        foreach (range(1, 15) as $_) {
            // One per request, as in FPM.
            $limiter = new Limiter($policy, $redis->dsn(), clock: $clock, lease: 50);
            $sources[] = $limiter->allow('hot')->source;
        }
        $leased = static fn (int $count): array => array_fill(0, $count, 'lease');
        self::assertSame(['store', 'store', ...$leased(1), 'store', ...$leased(3), 'store', ...$leased(7)], $sources);
        $limiter->allow('hot');
        $other = new Limiter($policy, $redis->dsn(), clock: $clock);
        self::assertSame(100 - 31, $other->peek('hot')->remaining);
        $limiter->returnLeases();
        self::assertSame(100 - 16, $other->peek('hot')->remaining);
    }

    public function testWhatIsNoLeaseIsRefused(): void
    {
        $window = Policy::fixedWindow(100, 3600.0);
        foreach ([[$window, -1, 'lease must be an integer between 0 and 2147483647, got -1'],
            [$window, 1.5, 'lease must be an integer between 0 and 2147483647, got 1.5'],
            [Policy::gcra(5, 1.0), 5, 'lease does not go with policy "default"']] as [$policy, $lease, $said]) {
            try {
                new Limiter($policy, 'redis://127.0.0.1:1', lease: $lease);
                self::fail($said);
            } catch (InvalidArgument $error) {
                self::assertStringStartsWith($said, $error->getMessage());
            }
        }
    }
}
