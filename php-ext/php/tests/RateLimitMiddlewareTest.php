<?php

declare(strict_types=1);

namespace RateLimit\Tests;

use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\ServerRequest;
use PHPUnit\Framework\TestCase;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use RateLimit\Exception\InvalidCost;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Http\KeyResolver;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Psr15\RateLimitMiddleware;
use RateLimit\Store;
use RateLimit\Tests\Support\CountingHandler;
use RateLimit\Tests\Support\Port;
use RateLimit\Tests\Support\RedisServer;

final class RateLimitMiddlewareTest extends TestCase
{
    private ManualClock $clock;
    private CountingHandler $handler;

    protected function setUp(): void
    {
        $this->clock = new ManualClock();
        $this->handler = new CountingHandler();
    }

    public function testAnAllowedRequestGetsTheHandlersResponseWithTheHeadersAdded(): void
    {
        $response = $this->send($this->middleware(headers: 'x-ratelimit'));

        self::assertSame(200, $response->getStatusCode());
        self::assertSame('hello from /reports', (string) $response->getBody());
        self::assertSame(
            ['X-RateLimit-Limit' => ['2'], 'X-RateLimit-Remaining' => ['1'], 'X-RateLimit-Reset' => ['10']],
            $response->getHeaders(),
        );
    }

    public function testARefusedRequestIsAnsweredWithoutTheHandler(): void
    {
        $middleware = $this->middleware(headers: 'x-ratelimit');
        $this->send($middleware);
        $this->send($middleware);
        $response = $this->send($middleware);

        self::assertSame(2, $this->handler->calls);
        self::assertSame(429, $response->getStatusCode());
        self::assertSame('Too Many Requests', $response->getReasonPhrase());
        self::assertSame([
            'X-RateLimit-Limit' => ['2'],
            'X-RateLimit-Remaining' => ['0'],
            'X-RateLimit-Reset' => ['10'],
            'Retry-After' => ['10'],
            'Content-Type' => ['application/problem+json'],
            'Cache-Control' => ['no-store'],
        ], $response->getHeaders());
        self::assertSame([
            'type' => 'https://iana.org/assignments/http-problem-types#quota-exceeded',
            'title' => 'Request cannot be satisfied as assigned quota has been exceeded',
            'status' => 429,
            'detail' => 'The rate limit of 2 is used up. Try again in 10 seconds.',
            'violated-policies' => ['default'],
        ], json_decode((string) $response->getBody(), true));
    }

    public function testTheWaitIsRoundedUpAndIsEnough(): void
    {
        $middleware = $this->middleware(headers: 'x-ratelimit');
        $this->send($middleware);
        $this->send($middleware);

        $this->clock->advance(9.1);
        $refused = $this->send($middleware);
        self::assertSame(429, $refused->getStatusCode());
        self::assertSame('1', $refused->getHeaderLine('Retry-After'));
        self::assertSame('1', $refused->getHeaderLine('X-RateLimit-Reset'));
        self::assertStringContainsString('Try again in 1 second.', (string) $refused->getBody());

        $this->clock->advance(1.0);
        self::assertSame(200, $this->send($middleware)->getStatusCode());
    }

    public function testRefusedRequestsNeverMoveTheHeadersOutOfTheirRange(): void
    {
        $middleware = $this->middleware(headers: 'x-ratelimit');
        $this->send($middleware);
        $this->send($middleware);
        for ($sent = 0; $sent < 499; $sent += 1) {
            $this->clock->advance(0.02);
            $response = $this->send($middleware);
            self::assertSame(429, $response->getStatusCode());
            self::assertSame('0', $response->getHeaderLine('X-RateLimit-Remaining'));
            self::assertGreaterThanOrEqual(1, (int) $response->getHeaderLine('Retry-After'));
            self::assertLessThanOrEqual(10, (int) $response->getHeaderLine('Retry-After'));
        }
        $this->clock->advance(0.02);
        self::assertSame(200, $this->send($middleware)->getStatusCode());
    }

    /** @dataProvider styles */
    public function testTheStyleNamesTheHeaders(string $style, array $expected): void
    {
        $response = $this->send($this->middleware(headers: $style));
        self::assertSame($expected, array_map(static fn (array $values) => $values[0], $response->getHeaders()));
    }

    public static function styles(): iterable
    {
        yield 'ietf' => ['ietf', ['RateLimit-Policy' => '"default";q=2;w=20', 'RateLimit' => '"default";r=1;t=10']];
        yield 'draft-7' => ['draft-7', ['RateLimit-Policy' => '2;w=20', 'RateLimit' => 'limit=2, remaining=1, reset=10']];
        yield 'draft-3' => [
            'draft-3',
            ['RateLimit-Limit' => '2', 'RateLimit-Remaining' => '1', 'RateLimit-Reset' => '10'],
        ];
        yield 'none' => ['none', []];
    }

    public function testTheDefaultStyleIsTheIetfs(): void
    {
        $middleware = new RateLimitMiddleware($this->limiter(), static fn () => 'alice', new Psr17Factory());
        self::assertSame('"default";r=1;t=10', $this->send($middleware)->getHeaderLine('RateLimit'));
    }

    public function testWithoutHeadersARefusalStillSaysWhenToRetry(): void
    {
        $middleware = $this->middleware(headers: 'none');
        $this->send($middleware);
        $this->send($middleware);
        $response = $this->send($middleware);
        self::assertSame('10', $response->getHeaderLine('Retry-After'));
        self::assertFalse($response->hasHeader('RateLimit'));
    }

    public function testAnUnknownStyleIsNamed(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage('style must be ietf, draft-7, draft-3, x-ratelimit, x-ratelimit-epoch or none, got "x-rate"');
        $this->send($this->middleware(headers: 'x-rate'));
    }

    public function testHeadersThatTheResponseHasStay(): void
    {
        $this->handler = new CountingHandler(['x-ratelimit-remaining' => '77']);
        $response = $this->send($this->middleware(headers: 'x-ratelimit'));
        self::assertSame('77', $response->getHeaderLine('X-RateLimit-Remaining'));
        self::assertSame('2', $response->getHeaderLine('X-RateLimit-Limit'));
    }

    public function testEachCallerHasABudgetOfTheirOwn(): void
    {
        $middleware = $this->middleware(key: self::peer());
        self::assertSame(200, $this->send($middleware, '192.0.2.1')->getStatusCode());
        self::assertSame(200, $this->send($middleware, '192.0.2.1')->getStatusCode());
        self::assertSame(429, $this->send($middleware, '192.0.2.1')->getStatusCode());
        self::assertSame(200, $this->send($middleware, '192.0.2.2')->getStatusCode());
    }

    public function testAResolverObjectSaysWhoCalls(): void
    {
        $resolver = new class () implements KeyResolver {
            public function resolve(ServerRequestInterface $request): string
            {
                return $request->getMethod();
            }
        };
        $limiter = $this->limiter();
        $this->send($this->middleware($limiter, $resolver));
        self::assertSame(1, $limiter->peek('GET')->remaining);
    }

    public function testANumberOrAnObjectWithATextIsAKeyToo(): void
    {
        $limiter = $this->limiter();
        $stringable = new class () {
            public function __toString(): string
            {
                return '42';
            }
        };
        $this->send($this->middleware($limiter, static fn () => 42));
        $this->send($this->middleware($limiter, static fn () => $stringable));
        self::assertSame(0, $limiter->peek('42')->remaining);
        self::assertSame(200, $this->send($this->middleware($limiter, static fn () => 0))->getStatusCode());
    }

    public function testAnythingElseIsNoKey(): void
    {
        $this->expectException(\TypeError::class);
        $this->expectExceptionMessage('key must give a string, an int, an array of them or null, got bool');
        $this->send($this->middleware(key: static fn () => false));
    }

    /** @dataProvider missingKeys */
    public function testCallersWithoutANameAreRejectedUnlessSaidOtherwise(mixed $missing): void
    {
        $limiter = $this->limiter();
        $response = $this->send(new RateLimitMiddleware($limiter, static fn () => $missing, new Psr17Factory()));

        self::assertSame(403, $response->getStatusCode());
        self::assertSame('application/problem+json', $response->getHeaderLine('Content-Type'));
        self::assertSame('Forbidden', json_decode((string) $response->getBody(), true)['title']);
        self::assertSame(0, $this->handler->calls);
        self::assertSame(2, $limiter->peek('')->remaining);
    }

    /** @dataProvider missingKeys */
    public function testSkippedCallersShareNoBudget(mixed $missing): void
    {
        $limiter = $this->limiter();
        $middleware = $this->middleware($limiter, static fn () => $missing, onMissingKey: 'skip');
        for ($caller = 0; $caller < 100; $caller += 1) {
            $response = $this->send($middleware);
            self::assertSame(200, $response->getStatusCode());
            self::assertFalse($response->hasHeader('RateLimit'));
        }
        self::assertSame(100, $this->handler->calls);
        self::assertSame(2, $limiter->peek('')->remaining);
    }

    /** @dataProvider missingKeys */
    public function testAMissingKeyCanBeAnError(mixed $missing): void
    {
        $this->expectException(\RuntimeException::class);
        $this->expectExceptionMessage('null or empty');
        $this->send($this->middleware(key: static fn () => $missing, onMissingKey: 'throw'));
    }

    public static function missingKeys(): iterable
    {
        yield 'null' => [null];
        yield 'empty' => [''];
        yield 'one of several is empty' => [['default' => 'alice', 'other' => '']];
        yield 'none of several' => [[]];
    }

    public function testARequestWithoutAnAddressNamesNobody(): void
    {
        $middleware = $this->middleware(key: self::peer());
        self::assertSame(403, $this->send($middleware)->getStatusCode());
        self::assertSame(403, $this->send($middleware, '')->getStatusCode());
    }

    public function testAnUnknownSettingForMissingKeysIsNamed(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage('onMissingKey must be reject, skip, shared or throw, got "ignore"');
        $this->middleware(onMissingKey: 'ignore');
    }

    public function testARequestMayCostMore(): void
    {
        $cost = static fn (ServerRequestInterface $request) => $request->getMethod() === 'POST' ? 2 : 1;
        $middleware = $this->middleware(headers: 'x-ratelimit', cost: $cost);
        self::assertSame('0', $this->send($middleware, method: 'POST')->getHeaderLine('X-RateLimit-Remaining'));
        self::assertSame(429, $this->send($middleware)->getStatusCode());
    }

    public function testACostAboveTheLimitIsRefusedWithoutATimeToRetry(): void
    {
        $response = $this->send($this->middleware(headers: 'x-ratelimit', cost: static fn () => 3));
        self::assertSame(429, $response->getStatusCode());
        self::assertFalse($response->hasHeader('Retry-After'));
        self::assertStringContainsString('No wait will help.', (string) $response->getBody());
    }

    public function testAWrongCostIsTheApplicationsToKnow(): void
    {
        $this->expectException(InvalidCost::class);
        $this->send($this->middleware(cost: static fn () => 0));
    }

    public function testAStoreThatIsAwayIsAnErrorUnlessTheLimiterSaysOtherwise(): void
    {
        $this->expectException(StoreUnavailable::class);
        $this->send($this->middleware($this->limiterWithoutStore('throw')));
    }

    public function testAClosedLimiterAnswersThatTheServiceIsUnavailable(): void
    {
        $response = $this->send($this->middleware($this->limiterWithoutStore('closed'), headers: 'x-ratelimit'));

        self::assertSame(0, $this->handler->calls);
        self::assertSame(503, $response->getStatusCode());
        self::assertSame('Service Unavailable', $response->getReasonPhrase());
        self::assertSame(
            ['Retry-After' => ['1'], 'Content-Type' => ['application/problem+json'], 'Cache-Control' => ['no-store']],
            $response->getHeaders(),
        );
        $problem = json_decode((string) $response->getBody(), true);
        self::assertSame(503, $problem['status']);
        self::assertSame('Requests cannot be counted at the moment. Try again in 1 second.', $problem['detail']);
    }

    public function testAnOpenLimiterLetsRequestsPassWithoutInventedNumbers(): void
    {
        $response = $this->send($this->middleware($this->limiterWithoutStore('open'), headers: 'x-ratelimit'));
        self::assertSame(200, $response->getStatusCode());
        self::assertSame([], $response->getHeaders());
    }

    public function testALocalLimiterTellsTheLocalNumbers(): void
    {
        $response = $this->send($this->middleware($this->limiterWithoutStore('local'), headers: 'x-ratelimit'));
        self::assertSame(200, $response->getStatusCode());
        self::assertSame('1', $response->getHeaderLine('X-RateLimit-Remaining'));
    }

    public function testTheKeyIsInNoAnswer(): void
    {
        $middleware = $this->middleware(key: static fn () => 's3cr3t-token');
        $all = '';
        for ($sent = 0; $sent < 3; $sent += 1) {
            $response = $this->send($middleware);
            $all .= json_encode($response->getHeaders()) . $response->getBody();
        }
        self::assertStringContainsString('Retry-After', $all);
        self::assertStringNotContainsString('s3cr3t', $all);
    }

    public function testTwoApplicationsShareOneBudgetOnRedis(): void
    {
        $redis = new RedisServer();
        $remaining = [];
        for ($request = 0; $request < 4; $request += 1) {
            // As in PHP-FPM: every request builds its own limiter and its own middleware.
            $limiter = $this->limiter(Store::redis($redis->dsn()));
            $response = $this->send($this->middleware($limiter, headers: 'x-ratelimit'));
            $remaining[] = [$response->getStatusCode(), $response->getHeaderLine('X-RateLimit-Remaining')];
        }
        self::assertSame([[200, '1'], [200, '0'], [429, '0'], [429, '0']], $remaining);
        self::assertSame(1, $redis->keys());
    }

    public function testOfSeveralPoliciesARefusalByOneCostsTheOthersNothing(): void
    {
        $policies = [Policy::fixedWindow(1, 60.0, name: 'client'), Policy::fixedWindow(10, 3600.0, name: 'everybody')];
        $limiter = new Limiter($policies, Store::memory(), clock: $this->clock);
        $key = static fn (ServerRequestInterface $request) => ['client' => self::peer()($request), 'everybody' => 'all'];
        $middleware = $this->middleware($limiter, $key, 'x-ratelimit');

        for ($request = 0; $request < 20; $request += 1) {
            $response = $this->send($middleware, '192.0.2.1');
            self::assertSame($request === 0 ? 200 : 429, $response->getStatusCode());
        }
        self::assertSame('60', $response->getHeaderLine('Retry-After'));
        self::assertSame('1', $response->getHeaderLine('X-RateLimit-Limit'));
        for ($client = 2; $client <= 10; $client += 1) {
            self::assertSame(200, $this->send($middleware, "192.0.2.{$client}")->getStatusCode());
        }
        $response = $this->send($middleware, '192.0.2.11');
        self::assertSame(429, $response->getStatusCode());
        self::assertSame(['10', '3600'], [$response->getHeaderLine('X-RateLimit-Limit'), $response->getHeaderLine('Retry-After')]);
        self::assertStringContainsString('The rate limit of 10 is used up.', (string) $response->getBody());
        self::assertSame(403, $this->send($middleware)->getStatusCode(), 'the client has no address');
        self::assertSame(10, $this->handler->calls);
    }

    public function testTheExampleOfTheReadmePrintsWhatTheReadmeSays(): void
    {
        $readme = file_get_contents(dirname(__DIR__) . '/README.md');
        self::assertSame(1, preg_match('/```php\n(.+?)```.+?```text\n(.+?)```/s', $readme, $found));
        $this->expectOutputString($found[2]);
        eval($found[1]);
    }

    /** Two tokens, one more every ten seconds. */
    private function limiter(?Store $store = null, string $onError = 'throw'): Limiter
    {
        return new Limiter(
            Policy::tokenBucket(2, 1.0, 10.0),
            $store ?? Store::memory(),
            onError: $onError,
            clock: $this->clock,
        );
    }

    private function limiterWithoutStore(string $onError): Limiter
    {
        return $this->limiter(Store::redis('redis://127.0.0.1:' . Port::free()), $onError);
    }

    private function middleware(
        ?Limiter $limiter = null,
        callable|KeyResolver|null $key = null,
        string $headers = 'ietf',
        string $onMissingKey = 'reject',
        ?callable $cost = null,
    ): RateLimitMiddleware {
        return new RateLimitMiddleware(
            $limiter ?? $this->limiter(),
            $key ?? static fn () => 'alice',
            new Psr17Factory(),
            $headers,
            onMissingKey: $onMissingKey,
            cost: $cost,
        );
    }

    private static function peer(): callable
    {
        return static fn (ServerRequestInterface $request) => $request->getServerParams()['REMOTE_ADDR'] ?? null;
    }

    private function send(RateLimitMiddleware $middleware, ?string $peer = null, string $method = 'GET'): ResponseInterface
    {
        $server = $peer === null ? [] : ['REMOTE_ADDR' => $peer];

        return $middleware->process(new ServerRequest($method, '/reports', serverParams: $server), $this->handler);
    }
}
