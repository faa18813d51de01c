<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Decision;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidPolicy;
use RateLimit\Exception\LimitExceeded;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * Several policies in one limiter: all of them are charged or none.
 */
final class SeveralTest extends TestCase
{
    private static ?RedisServer $server = null;

    public static function setUpBeforeClass(): void
    {
        self::$server = new RedisServer();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server = null;
    }

    protected function setUp(): void
    {
        self::$server->connection()->flushAll();
    }

    public static function stores(): iterable
    {
        yield 'memory' => [static fn () => Store::memory()];
        yield 'Redis' => [static fn () => Store::open(self::$server->dsn())];
    }

    /**
     * @dataProvider stores
     */
    public function testARefusedCallCostsTheOtherPoliciesNothing(callable $store): void
    {
        $client = Policy::fixedWindow(1, 60.0, name: 'client');
        $everybody = Policy::fixedWindow(10, 60.0, name: 'everybody');
        foreach ([[$client, $everybody], [$everybody, $client]] as $order => $policies) {
            $limiter = new Limiter($policies, $store(), clock: new ManualClock());
            $keys = static fn (string $name) => ['client' => $name, 'everybody' => "all {$order}"];
            for ($call = 0; $call < 20; $call++) {
                self::assertSame($call === 0, $limiter->allow($keys("X{$order}"))->allowed);
            }
            for ($other = 0; $other < 9; $other++) {
                $decision = $limiter->allow($keys("{$order} {$other}"));
                self::assertTrue($decision->allowed);
                self::assertSame(8 - $other, $this->of('everybody', $decision)->remaining);
            }
            $late = $limiter->allow($keys("late {$order}"));
            self::assertSame([false, 'everybody', 10, 60.0], [$late->allowed, $late->policy, $late->limit, $late->retryAfter]);
            self::assertSame([true, 1], [$this->of('client', $late)->allowed, $this->of('client', $late)->remaining]);
        }
    }

    /**
     * @dataProvider stores
     */
    public function testTheLongestWaitOfThoseThatRefuseIsTold(callable $store): void
    {
        $clock = new ManualClock();
        $limiter = new Limiter([Policy::gcra(1, 1.0, name: 'second'), Policy::fixedWindow(1, 60.0, name: 'minute')], $store(), clock: $clock);
        self::assertTrue($limiter->allow('k')->allowed);
        $refused = $limiter->allow('k');
        self::assertSame(['minute', 60.0], [$refused->policy, $refused->retryAfter]);
        self::assertSame([1.0, 60.0], array_map(static fn (Decision $each) => $each->retryAfter, $refused->each()));
        $clock->advance(59.999999);
        self::assertFalse($limiter->allow('k')->allowed);
        $clock->advance(0.000001);
        self::assertTrue($limiter->allow('k')->allowed);
    }

    /**
     * @dataProvider stores
     */
    public function testTheOneWithTheLeastLeftOfItsLimitRulesAnAllowedCall(callable $store): void
    {
        $limiter = new Limiter([Policy::parse('4/m', 'few'), Policy::parse('1000/h log', 'many')], $store(), clock: new ManualClock());
        $decision = $limiter->allow('k');
        self::assertSame(['few', 4, 3], [$decision->policy, $decision->limit, $decision->remaining]);
        self::assertSame([3, 999], array_map(static fn (Decision $each) => $each->remaining, $decision->each()));
        self::assertSame(['few', 'many'], array_map(static fn (Decision $each) => $each->policy, $decision->each()));
        self::assertEquals([$decision->each()[1]], $decision->each()[1]->each());
        self::assertSame('"few";r=3;t=60, "many";r=999;t=3600', $decision->headers()['RateLimit']);
        self::assertSame('"many";r=999;t=3600', $decision->each()[1]->headers()['RateLimit']);
    }

    public function testTwoLimitsOfOneAlgorithmNeedNoNames(): void
    {
        $limiter = new Limiter([Policy::parse('3/m'), Policy::parse('30/d')], Store::memory(), clock: new ManualClock());
        $decision = $limiter->allow('192.0.2.10');
        self::assertSame([2, 29], array_map(static fn (Decision $each) => $each->remaining, $decision->each()));
        self::assertTrue($limiter->allow('192.0.2.10', 2)->allowed);
        self::assertFalse($limiter->allow('192.0.2.10')->allowed);
    }

    public function testTheyCostOneRoundTripTogether(): void
    {
        $policies = [Policy::parse('10/s burst 20', 'a'), Policy::parse('100/m', 'b'), Policy::parse('5/h log', 'c')];
        $limiter = new Limiter($policies, self::$server->dsn());
        $limiter->allow('k');
        $calls = self::$server->calls('evalsha');
        for ($call = 0; $call < 4; $call++) {
            $limiter->allow(['a' => 'x', 'b' => 'y', 'c' => 'z']);
        }
        self::assertSame(4, self::$server->calls('evalsha') - $calls);
    }

    public function testCostsPeeksRefundsAndResetsConcernThemAll(): void
    {
        $limiter = new Limiter([Policy::parse('10/m', 'a'), Policy::parse('20 burst, 1/s', 'b')], Store::memory(), clock: new ManualClock());
        $left = static fn (Decision $decision) => array_map(static fn (Decision $each) => $each->remaining, $decision->each());
        self::assertSame([6, 16], $left($limiter->allow('k', 4)));
        self::assertSame([6, 16], $left($limiter->peek('k')));
        $limiter->refund('k', 3);
        self::assertSame([9, 19], $left($limiter->peek('k')));
        $limiter->reset(['a' => 'k', 'b' => 'other']);
        self::assertSame([10, 19], $left($limiter->peek('k')));
        $never = $limiter->allow('k', 11);
        self::assertSame([false, INF, 'a'], [$never->allowed, $never->retryAfter, $never->policy]);
        self::assertSame('the cost is above the limit 10 of policy "a"', (new LimitExceeded($never))->getMessage());
    }

    public function testAKeyForEachPolicyIsGivenByItsName(): void
    {
        $limiter = new Limiter([Policy::parse('5/m', 'a'), Policy::parse('5/m', '7')], Store::memory(), clock: new ManualClock());
        $name = 'b';
        $stringable = new class () {
            public function __toString(): string
            {
                return 'text';
            }
        };
        $limiter->allow(['7' => 42, 'a' => $stringable]);
        $limiter->allow(['a' => "\xff\0", 7 => &$name]);
        self::assertSame('b', $name);
        $left = static fn (array $keys) => array_map(static fn (Decision $each) => $each->remaining, $limiter->peek($keys)->each());
        self::assertSame([4, 4], $left(['a' => 'text', 7 => '42']));
        self::assertSame([4, 4], $left(['a' => "\xff\0", 7 => 'b']));
        self::assertSame([5, 5], $left(['a' => '42', 7 => 'text']));
    }

    public function testAnArrayMayNameTheKeyOfOnePolicyToo(): void
    {
        $limiter = new Limiter(Policy::parse('5/m', 'only'), Store::memory());
        $limiter->allow(['only' => 'k']);
        self::assertSame(4, $limiter->peek('k')->remaining);
    }

    /**
     * @dataProvider wrongKeys
     */
    public function testKeysThatDoNotFitThePoliciesAreRefused(array $keys, string $message): void
    {
        $limiter = new Limiter([Policy::parse('5/m', 'a'), Policy::parse('5/m', 'b')], Store::memory());
        foreach (['allow', 'peek', 'wait', 'refund', 'reset'] as $verb) {
            try {
                $limiter->$verb($keys);
                self::fail("{$verb}() took them");
            } catch (InvalidArgument $refusal) {
                self::assertSame($message, $refusal->getMessage());
            }
        }
    }

    public static function wrongKeys(): iterable
    {
        yield 'none' => [[], 'key has no entry for policy "a"'];
        yield 'one' => [['a' => 'k'], 'key has no entry for policy "b"'];
        yield 'another' => [['a' => 'k', 'b' => 'k', 'c' => 'k'], 'key names a policy "c" that the limiter does not have'];
        yield 'a list' => [['k', 'k'], 'key names a policy "0" that the limiter does not have'];
        yield 'a name with a NUL' => [["a\0" => 'k'], 'key names a policy "a\0" that the limiter does not have'];
    }

    public function testAnExceptionInAKeysToStringReachesTheCaller(): void
    {
        $key = new class () {
            public function __toString(): string
            {
                throw new \DomainException('no name');
            }
        };
        $limiter = new Limiter(Policy::parse('5/m', 'a'), Store::memory());
        $this->expectExceptionObject(new \DomainException('no name'));
        $limiter->allow(['a' => $key]);
    }

    public function testAToStringThatChangesTheArrayChangesNoKey(): void
    {
        $keys = ['a' => null, 'b' => 'before'];
        $member = &$keys['b'];
        $keys['a'] = new class ($member) {
            public function __construct(private mixed &$member)
            {
            }

            public function __toString(): string
            {
                $this->member = str_repeat('after', 1000);
                gc_collect_cycles();
                return 'k';
            }
        };
        $limiter = new Limiter([Policy::parse('5/m', 'b'), Policy::parse('5/m', 'a')], Store::memory());
        $limiter->allow(array_reverse($keys, true));
        self::assertSame(4, $limiter->peek(['a' => 'k', 'b' => 'before'])->remaining);
    }

    public function testAListOfPoliciesIsTakenAndOtherListsAreRefused(): void
    {
        $policy = Policy::tokenBucket(5, 1.0);
        self::assertSame(4, (new Limiter([$policy], Store::memory()))->allow('k')->remaining);
        self::assertSame(4, (new Limiter(['api' => &$policy], Store::memory()))->allow('k')->remaining);
        $same = 'policies must differ in name, algorithm or window, or they would charge one budget twice';
        $lists = [
            'policies must be 1 to 32 policies, got 0' => [],
            'policies must be 1 to 32 policies, got 33' => array_map(static fn (int $name) => Policy::gcra(1, 1.0, name: "{$name}"), range(1, 33)),
            $same => [$policy, $policy],
        ];
        foreach ($lists as $message => $list) {
            try {
                new Limiter($list);
                self::fail('it was taken');
            } catch (InvalidPolicy $refusal) {
                self::assertSame($message, $refusal->getMessage());
            }
        }
        self::assertTrue((new Limiter(array_slice($lists['policies must be 1 to 32 policies, got 33'], 1), Store::memory()))->allow('k')->allowed);
    }

    public function testTheFailureRuleAnswersForThemAll(): void
    {
        $policies = [Policy::parse('10/m', 'a'), Policy::parse('5/m', 'b')];
        $dsn = 'redis://127.0.0.1:' . Wait::freePort();
        foreach (['open' => true, 'closed' => false, 'local' => true] as $rule => $allowed) {
            $decision = (new Limiter($policies, $dsn, $rule))->allow('several');
            self::assertSame([$allowed, true], [$decision->allowed, $decision->degraded]);
            foreach ($decision->each() as $each) {
                self::assertSame([$allowed, true, $decision->source], [$each->allowed, $each->degraded, $each->source]);
            }
        }
        $this->expectException(StoreUnavailable::class);
        (new Limiter($policies, $dsn))->allow('several');
    }

    private function of(string $policy, Decision $decision): Decision
    {
        foreach ($decision->each() as $each) {
            if ($each->policy === $policy) {
                return $each;
            }
        }
        self::fail("no decision of {$policy}");
    }
}
