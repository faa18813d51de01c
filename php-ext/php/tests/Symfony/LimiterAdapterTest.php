<?php

declare(strict_types=1);

namespace RateLimit\Tests\Symfony;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidCost;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Symfony\LimiterAdapter;
use RateLimit\Symfony\LimiterFactory;
use RateLimit\Tests\Support\Port;
use RateLimit\Tests\Support\RedisServer;
use Symfony\Component\RateLimiter\CompoundLimiter;
use Symfony\Component\RateLimiter\Exception\MaxWaitDurationExceededException;
use Symfony\Component\RateLimiter\Exception\RateLimitExceededException;
use Symfony\Component\RateLimiter\Exception\ReserveNotSupportedException;
use Symfony\Component\RateLimiter\Policy\NoLimiter;

/** What the documentation of Symfony's component says that a limiter does. */
final class LimiterAdapterTest extends TestCase
{
    private ManualClock $clock;

    protected function setUp(): void
    {
        $this->clock = new ManualClock();
    }

    /** @dataProvider policies */
    public function testConsumeTakesWhatIsThereAndSaysWhatIsLeft(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        $first = $limiter->consume(8);
        self::assertSame([true, 2, 10], [$first->isAccepted(), $first->getRemainingTokens(), $first->getLimit()]);
        self::assertSame($first, $first->ensureAccepted());
        $refused = $limiter->consume(3);
        self::assertSame([false, 2, 10], [$refused->isAccepted(), $refused->getRemainingTokens(), $refused->getLimit()]);
        self::assertGreaterThan(new \DateTimeImmutable(), $refused->getRetryAfter());
        self::assertTrue($limiter->consume(2)->isAccepted(), 'a refusal takes nothing');
        try {
            $limiter->consume()->ensureAccepted();
            self::fail('it was accepted');
        } catch (RateLimitExceededException $exceeded) {
            self::assertSame(0, $exceeded->getRemainingTokens());
        }
    }

    /** @dataProvider policies */
    public function testConsumingNothingSaysWhatIsLeft(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        $limiter->consume(10);
        for ($looked = 0; $looked < 3; $looked += 1) {
            $look = $limiter->consume(0);
            self::assertSame([true, 0], [$look->isAccepted(), $look->getRemainingTokens()]);
        }
        $this->clock->advance(3600.0);
        self::assertSame(10, $limiter->consume(0)->getRemainingTokens());
    }

    /** @dataProvider policies */
    public function testAfterTheInstantThatIsToldTheCallIsAccepted(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        $limiter->consume(10);
        $before = microtime(true);
        $instant = (float) $limiter->consume(4)->getRetryAfter()->format('U.u');
        $wait = $instant - microtime(true);
        self::assertGreaterThan(0.0, $wait);
        $this->clock->advance($instant - $before);
        self::assertTrue($limiter->consume(4)->isAccepted());
    }

    /** @dataProvider policies */
    public function testResetForgetsWhatWasUsed(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        $limiter->consume(10);
        self::assertFalse($limiter->consume()->isAccepted());
        $limiter->reset();
        self::assertSame(9, $limiter->consume()->getRemainingTokens());
    }

    /** @dataProvider policies */
    public function testMoreThanTheLimitIsAnError(Policy $policy): void
    {
        $limiter = $this->limiter($policy);
        foreach (['consume', 'reserve'] as $verb) {
            try {
                $limiter->{$verb}(11);
                self::fail('it was taken');
            } catch (\InvalidArgumentException $error) {
                self::assertSame('Cannot take more tokens (11) than the rate limiter has at most (10).', $error->getMessage());
            } catch (ReserveNotSupportedException $error) {
                self::assertFalse(str_contains((string) $policy, 'burst'), 'a bucket reserves');
            }
        }
        self::assertSame(10, $limiter->consume(0)->getRemainingTokens());
        $this->expectException(InvalidCost::class);
        $limiter->consume(-1);
    }

    public static function policies(): iterable
    {
        foreach (['10/m', '10/m sliding', '10/m log', '10 burst, 2/10s', '10 burst, 1/s continuous', '10/m burst 10'] as $text) {
            yield $text => [Policy::parse($text)];
        }
    }

    public function testReserveHandsOutSlotsInOrder(): void
    {
        $limiter = $this->limiter(Policy::tokenBucket(2, 1, 10.0));
        $waits = [];
        for ($reserved = 0; $reserved < 4; $reserved += 1) {
            $now = microtime(true);
            $reservation = $limiter->reserve();
            $waits[] = [round($reservation->getTimeToAct() - $now), $reservation->getRateLimit()->isAccepted()];
        }
        self::assertSame([[0.0, true], [0.0, true], [10.0, false], [20.0, false]], $waits);
        self::assertEqualsWithDelta(20.0, $reservation->getWaitDuration(), 5.0);
    }

    public function testAReservationThatWouldWaitTooLongTakesNothing(): void
    {
        $limiter = $this->limiter(Policy::tokenBucket(2, 1, 10.0));
        $limiter->reserve(2);
        for ($asked = 0; $asked < 3; $asked += 1) {
            try {
                $limiter->reserve(1, 9.9);
                self::fail('it was reserved');
            } catch (MaxWaitDurationExceededException $tooLong) {
                self::assertFalse($tooLong->getRateLimit()->isAccepted());
                self::assertStringContainsString('10.000000 seconds', $tooLong->getMessage());
            }
        }
        self::assertGreaterThan(0.0, $limiter->reserve(1, 10.0)->getWaitDuration());
    }

    public function testAReservationThatIsWaitedForIsInTime(): void
    {
        $limiter = new LimiterAdapter(new Limiter(Policy::tokenBucket(1, 1, 0.05, true), Store::memory()), 'job');
        $limiter->consume();
        $limiter->reserve()->wait();
        // Its slot has come, so the next one is at most the interval away.
        self::assertLessThanOrEqual(0.05, $limiter->reserve()->getWaitDuration());
    }

    public function testARefusalThatIsWaitedForIsAcceptedThen(): void
    {
        foreach (['1/100ms', '1/100ms log', '1 burst, 1/100ms'] as $text) {
            $limiter = new LimiterAdapter(new Limiter(Policy::parse($text), Store::memory()), 'job');
            do {
                $limit = $limiter->consume();
            } while ($limit->isAccepted());
            $limit->wait();
            self::assertTrue($limiter->consume()->isAccepted(), $text);
        }
    }

    public function testWindowsHandOutNoSlots(): void
    {
        foreach (['10/m', '10/m sliding', '10/m log'] as $text) {
            try {
                $this->limiter(Policy::parse($text))->reserve();
                self::fail('it was reserved');
            } catch (ReserveNotSupportedException $refusal) {
                self::assertStringContainsString('LimiterAdapter', $refusal->getMessage());
            }
        }
    }

    public function testOfACompoundLimiterTheLeastIsTold(): void
    {
        $few = $this->limiter(Policy::parse('4/m', 'few'));
        $many = $this->limiter(Policy::parse('8/m', 'many'));
        $limiter = new CompoundLimiter([$few, $many]);
        self::assertSame(0, $limiter->consume(4)->getRemainingTokens());
        self::assertFalse($limiter->consume(3)->isAccepted());
        $limiter->reset();
        self::assertSame([4, 8], [$few->consume(0)->getRemainingTokens(), $many->consume(0)->getRemainingTokens()]);
    }

    public function testOneLimiterOfSeveralConfigurationsIsChargedAllOrNothing(): void
    {
        $factory = new LimiterFactory([
            ['id' => 'few', 'policy' => 'fixed_window', 'limit' => 4, 'interval' => '1 minute'],
            ['id' => 'many', 'policy' => 'sliding_window', 'limit' => 8, 'interval' => '1 hour'],
        ], Store::memory());
        $limiter = $factory->create('ann');
        self::assertTrue($limiter->consume(3)->isAccepted());
        for ($asked = 0; $asked < 5; $asked += 1) {
            self::assertFalse($limiter->consume(2)->isAccepted());
        }
        self::assertTrue($limiter->consume(1)->isAccepted());
        self::assertSame(4, $factory->create('bob')->consume(0)->getRemainingTokens());
        $this->expectException(ReserveNotSupportedException::class);
        $limiter->reserve();
    }

    /** @dataProvider configurations */
    public function testTheFactoryTakesSymfonysConfiguration(array $config, string $policy): void
    {
        $limiter = (new LimiterFactory($config + ['id' => 'x'], Store::memory()))->create();
        $expected = new LimiterAdapter(new Limiter(Policy::parse($policy), Store::memory()));
        self::assertSame($expected->consume()->getLimit(), $limiter->consume()->getLimit());
        $spent = $limiter->consume(0)->getRemainingTokens();
        self::assertTrue($limiter->consume($spent)->isAccepted());
        $expected->consume($spent);
        $wait = (float) $limiter->consume()->getRetryAfter()->format('U.u') - microtime(true);
        $right = (float) $expected->consume()->getRetryAfter()->format('U.u') - microtime(true);
        self::assertEqualsWithDelta($right, $wait, 5.0);
    }

    public static function configurations(): iterable
    {
        yield [['policy' => 'token_bucket', 'limit' => 5, 'rate' => ['interval' => '15 minutes', 'amount' => 2]], '5 burst, 2/900s'];
        yield [['policy' => 'token_bucket', 'limit' => 5, 'rate' => ['interval' => '30 seconds']], '5 burst, 1/30s'];
        yield [['policy' => 'fixed_window', 'limit' => 7, 'interval' => '2 hours'], '7/2h'];
        yield [['policy' => 'fixed_window', 'limit' => 7, 'interval' => '1 day'], '7/d'];
        yield [['policy' => 'sliding_window', 'limit' => 7, 'interval' => '60 minutes'], '7/h sliding'];
    }

    public function testNoLimitIsNone(): void
    {
        self::assertInstanceOf(NoLimiter::class, (new LimiterFactory(['id' => 'x', 'policy' => 'no_limit']))->create('ann'));
    }

    /** @dataProvider mistakes */
    public function testAConfigurationThatIsNoneIsToldWhenItIsMade(array $config, string $message): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage($message);
        new LimiterFactory($config, Store::memory());
    }

    public static function mistakes(): iterable
    {
        yield [['policy' => 'leaky'], 'policy must be token_bucket, fixed_window, sliding_window or no_limit, got "leaky"'];
        yield [['policy' => 'fixed_window', 'interval' => '1 minute'], 'needs "limit"'];
        yield [['policy' => 'fixed_window', 'limit' => 1], 'needs "interval"'];
        yield [['policy' => 'token_bucket', 'limit' => 1], 'needs "rate"'];
        yield [['policy' => 'fixed_window', 'limit' => 1, 'interval' => 'soon'], 'interval must be a text such as "15 minutes", got "soon"'];
        yield [['policy' => 'fixed_window', 'limit' => 0, 'interval' => '1 minute'], 'limit must be between 1 and 2147483647, got 0'];
    }

    public function testProcessesShareOneBudgetOnRedis(): void
    {
        $redis = new RedisServer();
        $config = ['id' => 'shared', 'policy' => 'fixed_window', 'limit' => 3, 'interval' => '1 minute'];
        $accepted = 0;
        for ($request = 0; $request < 5; $request += 1) {
            $accepted += (int) (new LimiterFactory($config, "{$redis->dsn()}?timeout=5"))->create('ann')->consume()->isAccepted();
        }
        self::assertSame(3, $accepted);
        self::assertSame(1, $redis->keys());
    }

    public function testAStoreThatIsAwayIsAnErrorUnlessTheFactorySaysOtherwise(): void
    {
        $config = ['id' => 'x', 'policy' => 'fixed_window', 'limit' => 3, 'interval' => '1 minute'];
        $away = 'redis://127.0.0.1:' . Port::free();
        self::assertTrue((new LimiterFactory($config, $away, 'open'))->create()->consume()->isAccepted());
        self::assertFalse((new LimiterFactory($config, $away, 'closed'))->create()->consume()->isAccepted());
        $this->expectException(StoreUnavailable::class);
        (new LimiterFactory($config, $away))->create()->consume();
    }

    private function limiter(Policy $policy): LimiterAdapter
    {
        return new LimiterAdapter(new Limiter($policy, Store::memory(), clock: $this->clock), 'ann');
    }
}
