<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Clock;
use RateLimit\Exception\InvalidArgument;
use RateLimit\ManualClock;
use RateLimit\Outbound\Fail;
use RateLimit\Outbound\GlobalLimit;
use RateLimit\Outbound\Go;
use RateLimit\Outbound\Governor;
use RateLimit\Outbound\InvalidRequestLimit;
use RateLimit\Outbound\Limit;
use RateLimit\Outbound\Refuse;
use RateLimit\Outbound\Retry;
use RateLimit\Outbound\Returned;
use RateLimit\Outbound\Wait;
use RateLimit\Policy;
use RateLimit\Store;

use function RateLimit\Outbound\parse_headers;

/**
 * The governor: asked before a request and told after it.
 */
final class OutboundTest extends TestCase
{
    private const URL = 'https://api.test/things';
    private const MEMBERS = [
        'limit' => 'limit', 'remaining' => 'remaining', 'reset_after' => 'resetAfter', 'reset_at' => 'resetAt',
        'retry_after' => 'retryAfter', 'bucket' => 'bucket', 'scope' => 'scope', 'rate_limited' => 'rateLimited',
        'wait' => 'wait',
    ];

    /** @dataProvider vectors */
    public function testHeadersAreReadAsTheVectorsSay(array $case): void
    {
        $seen = parse_headers($case['preset'], $case['status'], $case['headers'], $case['body'] ?? null, (float) $case['now']);
        foreach (self::MEMBERS as $member => $property) {
            $unknown = $member === 'rate_limited' ? false : null;
            $expected = $case['expect'][$member] ?? $unknown;
            $got = $seen === null ? $unknown : $seen->$property;
            self::assertEquals($expected, $got, "{$case['name']}: $member");
            self::assertSame($expected === null, $got === null, "{$case['name']}: $member");
        }
    }

    public static function vectors(): iterable
    {
        foreach (glob(__DIR__ . '/../../../tests/vectors/headers/parse/*.json') as $file) {
            foreach (json_decode(file_get_contents($file), true, flags: JSON_THROW_ON_ERROR)['cases'] as $case) {
                yield basename($file, '.json') . ": {$case['name']}" => [$case];
            }
        }
    }

    public function testARequestWaitsForTheResetThatAnotherOneWasTold(): void
    {
        $clock = new ManualClock();
        $governor = new Governor(store: Store::memory(), safetyBuffer: 0.5, clock: $clock);
        $go = $governor->before('GET', self::URL);
        self::assertInstanceOf(Go::class, $go);
        self::assertSame('GET api.test /things', $go->ticket->route);
        $told = $governor->after($go->ticket, 200, self::exhausted('42'));
        self::assertInstanceOf(Returned::class, $told);
        self::assertSame(9, $told->observation->limit);
        $wait = $governor->before('GET', self::URL);
        self::assertInstanceOf(Wait::class, $wait);
        self::assertSame([42.5, 'quota'], [$wait->delay, $wait->reason]);
        $state = $governor->state('GET', self::URL);
        self::assertSame([9, 0, 42.5], [$state->limit, $state->remaining, $state->retryAfter]);
        $clock->advance($wait->delay);
        self::assertInstanceOf(Go::class, $governor->resume($wait->ticket));
        $governor->forget('GET', self::URL);
        self::assertNull($governor->state('GET', self::URL));
    }

    public function testARefusalIsRetriedAndThenFails(): void
    {
        $clock = new ManualClock();
        $governor = new Governor(store: Store::memory(), maxRetries: 2, clock: $clock);
        $answer = $governor->before('GET', self::URL);
        $delays = [];
        for (;;) {
            $after = $governor->after($answer->ticket, 429, ['Retry-After' => ['3']]);
            if (!$after instanceof Retry) {
                break;
            }
            $delays[] = [$after->delay, $after->attempt];
            $clock->advance($after->delay);
            $answer = $governor->resume($after->ticket);
        }
        self::assertSame([[3.0, 1], [3.0, 2]], $delays);
        self::assertInstanceOf(Fail::class, $after);
        self::assertSame([3.0, false, false], [$after->retryAfter, $after->global, $after->tooLong]);
    }

    public function testAStoreThatIsAwayIsStoodInForUnlessThatIsNotWanted(): void
    {
        $away = 'redis://127.0.0.1:1';
        foreach ([null, 'local', 'open'] as $rule) {
            $go = (new Governor(store: $away, onError: $rule))->before('GET', self::URL, bucket: "$rule of " . getmypid());
            self::assertInstanceOf(Go::class, $go);
            self::assertTrue($go->ticket->degraded);
        }
        $wait = (new Governor(store: $away, onError: 'closed'))->before('GET', self::URL);
        self::assertSame(['store', 1.0], [$wait->reason, $wait->delay]);
        $this->expectException(\RateLimit\Exception\StoreUnavailable::class);
        (new Governor(store: $away, onError: 'throw'))->before('GET', self::URL);
    }

    public function testAStrategyThatSaysNonsenseIsRefused(): void
    {
        foreach ([-1.0, NAN, 'soon'] as $nonsense) {
            $governor = new Governor(store: Store::memory(), strategy: fn () => $nonsense);
            try {
                $governor->after($governor->before('GET', self::URL)->ticket, 429, []);
                self::fail('it is nonsense');
            } catch (InvalidArgument $error) {
                self::assertStringStartsWith('strategy must give seconds or null', $error->getMessage());
            }
        }
        $this->expectException(\TypeError::class);
        new Governor(store: Store::memory(), strategy: 'no function');
    }

    public function testAResolverSaysWhatIsCountedTogether(): void
    {
        $resolver = fn (string $method, string $url): ?string => str_ends_with($url, '?x') ? 'both' : null;
        $governor = new Governor('twitter', Store::memory(), clock: new ManualClock(), resolver: $resolver);
        $headers = ['x-rate-limit-limit' => '9', 'x-rate-limit-remaining' => '0', 'x-rate-limit-reset' => '1700000060'];
        $governor->after($governor->before('GET', self::URL . '/a?x')->ticket, 200, $headers);
        self::assertInstanceOf(Wait::class, $governor->before('POST', self::URL . '/b?x'));
        self::assertInstanceOf(Go::class, $governor->before('GET', self::URL . '/a'));
        self::assertInstanceOf(Go::class, $governor->before('GET', self::URL . '/c?x', bucket: 'other'));
        self::assertSame(0, $governor->state('DELETE', self::URL . '?x')->remaining);
        $this->expectException(InvalidArgument::class);
        (new Governor(store: Store::memory(), resolver: fn () => 5))->before('GET', self::URL);
    }

    public function testWorkIsCountedAndNoKeyIsSeen(): void
    {
        $governor = new Governor('hubspot', Store::memory());
        $governor->after($governor->before('GET', self::URL, 'Bearer hunter2')->ticket, 200, []);
        $text = \RateLimit\metrics();
        self::assertStringContainsString("rate_limiter_outbound_requests_total{preset=\"hubspot\"} 1\n", $text);
        self::assertStringNotContainsString('hunter2', $text);
    }

    public function testWhoDoesNotWaitThatLongIsRefused(): void
    {
        $governor = new Governor(store: Store::memory(), maxDelay: 60, clock: new ManualClock());
        $governor->after($governor->before('GET', self::URL)->ticket, 200, self::exhausted('10800'));
        $refused = $governor->before('GET', self::URL);
        self::assertInstanceOf(Refuse::class, $refused);
        self::assertSame(10801.0, $refused->delay);
        self::assertInstanceOf(Wait::class, $governor->before('GET', self::URL, maxDelay: INF));
        self::assertInstanceOf(Go::class, $governor->before('GET', self::URL, enabled: false));
        self::assertInstanceOf(Go::class, $governor->before('GET', self::URL, bucket: 'other'));
    }

    public function testLimitsOfOnesOwnAndAClockOfOnesOwn(): void
    {
        $clock = new class () implements Clock {
            public float $at = 1_700_000_000.0;

            public function now(): float
            {
                return $this->at;
            }
        };
        $limits = [
            new Limit(Policy::fixedWindow(1, 10), 'everything', '/slow/*'),
            new Limit(Policy::fixedWindow(1, 60), appliesTo: fn (string $method, string $url) => $method === 'POST', name: 'writes'),
        ];
        $governor = new Governor(store: Store::memory(), limits: $limits, globalLimit: new GlobalLimit(4), clock: $clock);
        $ask = function (string $method, string $path) use ($governor): string {
            $answer = $governor->before($method, "https://api.test$path", identity: $path . random_int(0, PHP_INT_MAX));
            return $answer instanceof Go ? 'go' : $answer->reason;
        };
        self::assertSame(['go', 'limit', 'go'], [$ask('GET', '/slow/1'), $ask('GET', '/slow/2'), $ask('GET', '/quick')]);
        $clock->at += 10;
        self::assertSame('go', $ask('GET', '/slow/3'));
        self::assertSame('writes', $limits[1]->name);
        self::assertSame([4, 4], [$governor->globalBudget('GET', self::URL)->limit, $governor->globalBudget('GET', self::URL)->remaining]);
        self::assertNull($governor->invalidRequestBudget('GET', self::URL));
        new InvalidRequestLimit();
    }

    public function testAFunctionThatThrowsIsHeard(): void
    {
        $limit = new Limit(Policy::fixedWindow(1, 60), appliesTo: fn () => throw new \DomainException('no'));
        $governor = new Governor(store: Store::memory(), limits: [$limit]);
        $this->expectException(\DomainException::class);
        $governor->before('GET', self::URL);
    }

    public function testWhatIsWrongIsRefused(): void
    {
        $wrong = [
            fn () => new Governor('myspace'), fn () => new Governor(jitter: 2.0), fn () => new Governor(maxRetries: -1),
            fn () => new Governor(maxDelay: 0.0), fn () => new Limit(Policy::fixedWindow(1, 1), 'galaxy'),
            fn () => (new Governor(store: Store::memory()))->before('GET', '/relative?token=hunter2'),
            fn () => parse_headers('myspace', 200, []), fn () => parse_headers('github', 99, []),
        ];
        foreach ($wrong as $number => $call) {
            try {
                $call();
                self::fail("number $number passed");
            } catch (InvalidArgument $error) {
                self::assertStringNotContainsString('hunter2', $error->getMessage());
            }
        }
        $this->expectException(\TypeError::class);
        new Governor(limits: ['10/s']);
    }

    private static function exhausted(string $reset): array
    {
        return ['X-RateLimit-Limit' => '9', 'X-RateLimit-Remaining' => '0', 'X-RateLimit-Reset' => $reset];
    }
}
