<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * Taking ahead of time, and giving back; the vectors have the numbers.
 */
final class ReserveTest extends TestCase
{
    private ManualClock $clock;

    protected function setUp(): void
    {
        $this->clock = new ManualClock();
    }

    public function testAReservationSaysWhenToStart(): void
    {
        $limiter = $this->limiter(Policy::gcra(2, 1.0, 1));
        self::assertSame([0.0, 0.5, 1.0], array_map(static fn () => $limiter->reserve('k')->delay, range(1, 3)));
        $refused = $limiter->allow('k');
        self::assertSame([false, 0.0, 1.5], [$refused->allowed, $refused->delay, $refused->retryAfter]);
        $this->clock->advance(1.5);
        self::assertTrue($limiter->allow('k')->allowed);
        self::assertSame(0.5, $limiter->reserve('k', maxWait: INF)['delay']);
    }

    public function testOneThatWouldStartTooLateTakesNothing(): void
    {
        $limiter = $this->limiter(Policy::tokenBucket(2, 1.0));
        $limiter->allow('k', 2);
        foreach ([0, 0.5, '0.999999'] as $maxWait) {
            $decision = $limiter->reserve('k', 1, $maxWait);
            self::assertSame([false, 0.0], [$decision->allowed, $decision->delay]);
        }
        self::assertSame(1.0, $limiter->reserve('k', 1, 1)->delay);
        $never = $limiter->reserve('k', 3);
        self::assertSame([false, INF], [$never->allowed, $never->retryAfter]);
    }

    public function testALeakyBucketIsAQueueWithAnEnd(): void
    {
        $limiter = $this->limiter(Policy::leakyBucket(3, 2.0));
        self::assertSame([0.0, 0.5, 1.0], array_map(static fn () => $limiter->reserve('k')->delay, range(1, 3)));
        self::assertFalse($limiter->reserve('k')->allowed);
    }

    /**
     * @dataProvider windows
     */
    public function testAWindowRefusesToReserveAndSaysWhatToUse(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        foreach ([$limiter, $this->limiter([Policy::gcra(1, 1.0, name: 'other'), $policy])] as $each) {
            try {
                $each->reserve('k');
                self::fail('it was reserved');
            } catch (InvalidArgument $refusal) {
                self::assertStringContainsString('policy "default"', $refusal->getMessage());
                self::assertStringContainsString('use wait', $refusal->getMessage());
            }
        }
        self::assertSame(5, $limiter->peek('k')->remaining);
    }

    public static function windows(): array
    {
        return [
            'fixed window' => [Policy::fixedWindow(5, 60.0)],
            'sliding window log' => [Policy::slidingWindowLog(5, 60.0)],
            'sliding window counter' => [Policy::slidingWindowCounter(5, 60.0)],
        ];
    }

    public function testALongestWaitThatIsNoneIsRefused(): void
    {
        $limiter = $this->limiter(Policy::gcra(1, 1.0));
        foreach (['NAN' => NAN, '-0.5' => -0.5, '-INF' => -INF] as $shown => $maxWait) {
            foreach (['reserve', 'wait'] as $verb) {
                try {
                    $limiter->$verb('k', 1, $maxWait);
                    self::fail("{$verb}() took it");
                } catch (InvalidArgument $refusal) {
                    self::assertSame("maxWait must be at least 0 seconds, got {$shown}", $refusal->getMessage());
                }
            }
        }
        self::assertSame(1, $limiter->peek('k')->remaining);
        self::assertTrue($limiter->reserve('k', 1, PHP_FLOAT_MAX)->allowed);
    }

    /**
     * @dataProvider everyAlgorithm
     */
    public function testARefundGivesBackWhatWasTakenAndNoMore(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        self::assertNull($limiter->refund('k', 3));
        self::assertSame(5, $limiter->peek('k')->remaining);
        $limiter->allow('k', 4);
        $limiter->refund('k', 3);
        self::assertSame(4, $limiter->peek('k')->remaining);
        $limiter->refund('k', 100);
        self::assertSame([true, false], [$limiter->allow('k', 5)->allowed, $limiter->allow('k')->allowed]);
    }

    public static function everyAlgorithm(): array
    {
        return self::windows() + [
            'token bucket' => [Policy::tokenBucket(5, 1.0, 60.0)],
            'leaky bucket' => [Policy::leakyBucket(5, 0.1)],
            'GCRA' => [Policy::gcra(1, 60.0, 5)],
        ];
    }

    public function testARefundFollowsTheFailureRule(): void
    {
        $limiter = new Limiter(Policy::gcra(1, 1.0), 'redis://127.0.0.1:' . Wait::freePort(), 'open');
        self::assertNull($limiter->refund('k'));
    }

    /**
     * @dataProvider stores
     */
    public function testTheSameTokenTakesOnceAndAnswersTheSame(callable $open): void
    {
        $store = $open();
        $limiter = $this->limiter(Policy::tokenBucket(10, 1.0, 60.0), $store);
        $first = $limiter->allow('k', 3, 'job 7');
        self::assertEquals($first, $limiter->allow('k', 3, token: 'job 7'));
        self::assertEquals($first, $limiter->reserve('k', 3, token: 'job 7'));
        self::assertEquals($first, $limiter->wait('k', 3, token: 'job 7'));
        self::assertSame(7, $limiter->peek('k')->remaining);
        self::assertSame(4, $limiter->allow('k', 3, "job \0\xff")->remaining);
        self::assertSame(7, $limiter->allow('another', 3, 'job 7')->remaining);
        self::assertSame(3, $limiter->allow('k', token: null)->remaining);
        $this->clock->advance(59.999999);
        self::assertSame(7, $limiter->allow('k', 3, 'job 7')->remaining);
        $this->clock->advance(0.000001);
        self::assertSame(1, $limiter->allow('k', 3, 'job 7')->remaining, 'a minute has passed, and brought one');
    }

    /**
     * @dataProvider stores
     */
    public function testARefusalIsNotRememberedByItsToken(callable $open): void
    {
        $limiter = $this->limiter([Policy::gcra(1, 1.0, name: 'a'), Policy::parse('5/m', 'b')], $open());
        $limiter->allow('k');
        self::assertFalse($limiter->allow('k', 1, 't')->allowed);
        $this->clock->advance(1.0);
        self::assertTrue($limiter->allow('k', 1, 't')->allowed);
        self::assertTrue($limiter->allow('k', 1, 't')->allowed);
        self::assertFalse($limiter->allow('k')->allowed);
    }

    public static function stores(): iterable
    {
        yield 'memory' => [static fn () => Store::memory()];
        $server = null;
        yield 'Redis' => [static function () use (&$server): Store {
            $server = new RedisServer();
            return Store::open($server->dsn());
        }];
    }

    /**
     * @dataProvider stores
     */
    public function testARefundUnderATokenIsMadeOnceAndMayHaveTheTokenOfItsCall(callable $open): void
    {
        $limiter = $this->limiter(Policy::tokenBucket(10, 1.0, 60.0), $open());
        $limiter->allow('k', 6, 'job 7');
        $limiter->refund('k', 2, 'job 7');
        self::assertSame(6, $limiter->peek('k')->remaining);
        $limiter->refund('k', 2, token: 'job 7');
        self::assertSame(6, $limiter->peek('k')->remaining);
        $limiter->refund('k', 1, 'job 8');
        $limiter->refund('k', 1, null);
        self::assertSame(8, $limiter->peek('k')->remaining);
    }

    public function testAnEmptyTokenIsRefused(): void
    {
        $limiter = $this->limiter(Policy::gcra(5, 1.0));
        $calls = [
            static fn () => $limiter->allow('k', 1, ''),
            static fn () => $limiter->wait('k', token: ''),
            static fn () => $limiter->refund('k', token: ''),
        ];
        foreach ($calls as $call) {
            try {
                $call();
                self::fail('it was taken');
            } catch (InvalidArgument $refusal) {
                self::assertSame('token must not be empty', $refusal->getMessage());
            }
        }
        self::assertSame(5, $limiter->peek('k')->remaining);
    }

    private function limiter(Policy|array $policies, ?Store $store = null): Limiter
    {
        return new Limiter($policies, $store ?? Store::memory(), clock: $this->clock);
    }
}
