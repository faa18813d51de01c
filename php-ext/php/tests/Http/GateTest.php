<?php

declare(strict_types=1);

namespace RateLimit\Tests\Http;

use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\Response;
use Nyholm\Psr7\ServerRequest;
use PHPUnit\Framework\TestCase;
use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;
use Psr\Log\AbstractLogger;
use RateLimit\ClientIp;
use RateLimit\Http\IdentityMissing;
use RateLimit\Http\Key;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Psr15\RateLimitMiddleware;
use RateLimit\Store;
use RateLimit\Tests\Support\RedisServer;

/** What the middlewares share: who is asked for whom, and what a request costs after all. */
final class GateTest extends TestCase implements RequestHandlerInterface
{
    private Limiter $limiter;
    private int $status = 200;
    /** @var ?callable(): void */
    private $meanwhile = null;

    protected function setUp(): void
    {
        $this->limiter = new Limiter(Policy::parse('3/m'), Store::memory(), clock: new ManualClock());
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        if ($this->meanwhile !== null) {
            ($this->meanwhile)();
        }

        return new Response($this->status);
    }

    public function testOnlyFailedLoginsAreCharged(): void
    {
        $after = static fn (ResponseInterface $response) => $response->getStatusCode() === 401 ? 1 : 0;
        $middleware = $this->middleware(after: $after);
        for ($login = 0; $login < 10; $login += 1) {
            self::assertSame('"default";r=3;t=0', $this->send($middleware)->getHeaderLine('RateLimit'));
        }
        $this->status = 401;
        foreach (['2', '1', '0'] as $remaining) {
            $response = $this->send($middleware);
            self::assertSame([401, "\"default\";r=$remaining;t=60"], [$response->getStatusCode(), $response->getHeaderLine('RateLimit')]);
            self::assertFalse($response->hasHeader('Retry-After'));
        }
        $this->status = 200;
        self::assertSame(429, $this->send($middleware)->getStatusCode());
    }

    public function testManyLoginsAtOnceCannotGuessMoreOftenThanTheLimit(): void
    {
        $middleware = $this->middleware(after: static fn (ResponseInterface $response) => $response->getStatusCode() === 401 ? 1 : 0);
        $this->status = 401;
        $statuses = [];
        // Each next login comes in while the one before is being handled.
        $this->meanwhile = function () use ($middleware, &$statuses): void {
            if (count($statuses) < 20) {
                $statuses[] = 0;
                $statuses[] = $this->send($middleware)->getStatusCode();
            }
        };
        $statuses[] = $this->send($middleware)->getStatusCode();
        self::assertCount(3, array_keys($statuses, 401));
    }

    public function testAResponseMayCostMoreAsFarAsItIsThere(): void
    {
        $cost = 1;
        $middleware = $this->middleware(after: static function () use (&$cost): int {
            return $cost;
        });
        $this->send($middleware);
        self::assertSame(2, $this->limiter->peek('ann')->remaining);
        $cost = 5;
        self::assertSame('"default";r=0;t=60', $this->send($middleware)->getHeaderLine('RateLimit'));
        self::assertSame(0, $this->limiter->peek('ann')->remaining);
    }

    public function testAStoreThatGoesAwayMeanwhileDoesNotUndoTheResponse(): void
    {
        $redis = new RedisServer();
        $limiter = new Limiter(Policy::parse('3/m'), "{$redis->dsn()}?timeout=5");
        $logger = self::logger();
        $this->meanwhile = $redis->stop(...);
        $response = $this->send($this->middleware($limiter, after: static fn () => 0, logger: $logger));
        self::assertSame([200, '"default";r=2;t=60'], [$response->getStatusCode(), $response->getHeaderLine('RateLimit')]);
        self::assertCount(1, $logger->lines);
        self::assertStringStartsWith('The charge for a request could not be set right', $logger->lines[0]);
    }

    public function testARequestMayPassUnlimited(): void
    {
        $skip = static fn (ServerRequestInterface $request) => $request->getUri()->getPath() === '/health';
        $middleware = $this->middleware(skip: $skip);
        for ($sent = 0; $sent < 9; $sent += 1) {
            self::assertSame([], $this->send($middleware, '/health')->getHeaders());
            $this->send($middleware);
        }
        self::assertSame(429, $this->send($middleware)->getStatusCode());
    }

    public function testEachRouteHasItsLimiter(): void
    {
        $route = fn (ServerRequestInterface $request) => $request->getUri()->getPath() === '/limited' ? $this->limiter : null;
        $middleware = $this->middleware($route);
        for ($sent = 0; $sent < 5; $sent += 1) {
            self::assertSame(200, $this->send($middleware, '/free')->getStatusCode());
            self::assertSame($sent < 3 ? 200 : 429, $this->send($middleware, '/limited')->getStatusCode());
        }
    }

    /** @dataProvider rules */
    public function testAMissingIdentityIsReportedOnce(string $rule, array $statuses, int $shared): void
    {
        $logger = self::logger();
        $events = new class () implements EventDispatcherInterface {
            public array $seen = [];

            public function dispatch(object $event)
            {
                $this->seen[] = $event;

                return $event;
            }
        };
        $middleware = $this->middleware(key: static fn () => null, onMissingKey: $rule, logger: $logger, events: $events);
        $seen = [];
        for ($sent = 0; $sent < 4; $sent += 1) {
            $seen[] = $this->send($middleware)->getStatusCode();
        }
        self::assertSame($statuses, $seen);
        self::assertSame(["A request does not say who is calling; rule: $rule."], $logger->lines);
        self::assertEquals([new IdentityMissing($rule)], $events->seen);
        self::assertSame($shared, $this->limiter->peek(ClientIp::sharedKey())->remaining);
        self::assertSame(3, $this->limiter->peek('')->remaining);
    }

    public static function rules(): iterable
    {
        yield ['reject', [403, 403, 403, 403], 3];
        yield ['skip', [200, 200, 200, 200], 3];
        yield ['shared', [200, 200, 200, 429], 0];
    }

    public function testOfSeveralKeysOnlyTheMissingOneIsShared(): void
    {
        $policies = [Policy::parse('9/m', 'user'), Policy::parse('9/m', 'tenant')];
        $this->limiter = new Limiter($policies, Store::memory(), clock: new ManualClock());
        $key = static fn () => ['user' => 'ann', 'tenant' => null];
        self::assertSame(200, $this->send($this->middleware(key: $key, onMissingKey: 'shared'))->getStatusCode());
        $left = $this->limiter->peek(['user' => 'ann', 'tenant' => ClientIp::sharedKey()]);
        self::assertSame([8, 8], [$left->each()[0]->remaining, $left->each()[1]->remaining]);
    }

    public function testTheBodyAndTheTypeOfARefusalAreChosen(): void
    {
        foreach (['json' => 'application/json', 'none' => ''] as $body => $type) {
            $middleware = $this->middleware(body: $body);
            $this->limiter->allow('ann', max(1, $this->limiter->peek('ann')->remaining));
            $response = $this->send($middleware);
            self::assertSame([429, $type], [$response->getStatusCode(), $response->getHeaderLine('Content-Type')]);
            self::assertSame('no-store', $response->getHeaderLine('Cache-Control'));
            self::assertSame($body === 'none' ? '' : '{"error":"Too many requests","retry_after":60}', (string) $response->getBody());
        }
        $body = (string) $this->send($this->middleware(type: 'abnormal-usage-detected'))->getBody();
        self::assertStringEndsWith('#abnormal-usage-detected', json_decode($body, true)['type']);
    }

    public function testATokenIsReadableNowhere(): void
    {
        $redis = new RedisServer();
        $logger = self::logger();
        $monitor = stream_socket_client("tcp://127.0.0.1:{$redis->port}");
        fwrite($monitor, "MONITOR\r\n");
        self::assertSame("+OK\r\n", fgets($monitor));
        $limiter = new Limiter(Policy::parse('2/m'), "{$redis->dsn()}?timeout=5");
        $middleware = $this->middleware($limiter, Key::apiKey('Authorization'), logger: $logger);
        $seen = '';
        $statuses = [];
        foreach (['s3cr3t-token-value', 's3cr3t-token-value', 's3cr3t-token-value', 's3cr3t-other'] as $token) {
            $response = $this->send($middleware, headers: ['Authorization' => "Bearer $token"]);
            $statuses[] = $response->getStatusCode();
            $seen .= json_encode($response->getHeaders()) . $response->getBody();
        }
        self::assertSame([200, 200, 429, 200], $statuses);
        stream_set_blocking($monitor, false);
        $seen .= implode("\n", $logger->lines) . stream_get_contents($monitor);
        self::assertStringContainsString('EVAL', $seen);
        self::assertStringNotContainsString('s3cr3t', $seen);
    }

    private function middleware(
        Limiter|callable|null $limiter = null,
        mixed $key = null,
        mixed ...$options,
    ): RateLimitMiddleware {
        return new RateLimitMiddleware($limiter ?? $this->limiter, $key ?? static fn () => 'ann', new Psr17Factory(), ...$options);
    }

    /** @param array<string, string> $headers */
    private function send(RateLimitMiddleware $middleware, string $path = '/login', array $headers = []): ResponseInterface
    {
        return $middleware->process(new ServerRequest('POST', $path, $headers), $this);
    }

    private static function logger(): AbstractLogger
    {
        return new class () extends AbstractLogger {
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = strtr($message, array_combine(array_map(static fn ($name) => "{{$name}}", array_keys($context)), $context));
            }
        };
    }
}
