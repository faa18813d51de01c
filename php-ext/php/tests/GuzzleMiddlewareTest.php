<?php

declare(strict_types=1);

namespace RateLimit\Tests;

use GuzzleHttp\Client;
use GuzzleHttp\HandlerStack;
use GuzzleHttp\Promise\Utils as Promises;
use GuzzleHttp\Psr7\NoSeekStream;
use GuzzleHttp\Psr7\Utils;
use PHPUnit\Framework\TestCase;
use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Log\AbstractLogger;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Guzzle\DelayExceeded;
use RateLimit\Guzzle\Event\RequestDelayed;
use RateLimit\Guzzle\Event\RetryScheduled;
use RateLimit\Guzzle\Event\StateUpdated;
use RateLimit\Guzzle\RateLimitExceeded;
use RateLimit\Guzzle\RateLimitMiddleware;
use RateLimit\ManualClock;
use RateLimit\Outbound\Limit;
use RateLimit\Outbound\Observation;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Testing\RecordingSleeper;
use RateLimit\Tests\Support\ApiServer;
use RateLimit\Tests\Support\Port;

/**
 * A Guzzle client under a governor, against a real server on loopback.
 */
final class GuzzleMiddlewareTest extends TestCase
{
    private const FINE = [200, ['Content-Type' => 'text/plain'], 'fine'];
    private const REFUSED = [429, ['Retry-After' => '7'], 'slow down'];

    private ManualClock $clock;
    private RecordingSleeper $sleeper;
    private object $events;
    private ApiServer $server;

    private function client(string $preset, array $answers, array|string $options = [], ?AbstractLogger $logger = null): Client
    {
        $this->server = new ApiServer($answers);
        $this->clock = new ManualClock();
        $this->sleeper = new RecordingSleeper($this->clock);
        $this->events = new class () implements EventDispatcherInterface {
            public array $seen = [];

            public function dispatch(object $event): object
            {
                return $this->seen[] = $event;
            }
        };
        $middleware = RateLimitMiddleware::create(
            $preset, Store::memory(), $options, $this->events, $logger, $this->clock, $this->sleeper,
        );
        $stack = HandlerStack::create();
        $stack->push($middleware, 'rate_limit');
        return new Client(['handler' => $stack, 'base_uri' => $this->server->url, 'http_errors' => false]);
    }

    public function testARefusalIsWaitedOutAndTheBodySentAgain(): void
    {
        $client = $this->client('default', [self::REFUSED, self::FINE]);
        $response = $client->post('/x/42', ['body' => 'payload']);
        self::assertSame([200, 'fine'], [$response->getStatusCode(), (string) $response->getBody()]);
        self::assertSame([7.0], $this->sleeper->sleeps);
        self::assertSame(['payload', 'payload'], array_column($this->server->requests(), 'body'));
        self::assertInstanceOf(StateUpdated::class, $this->events->seen[0]);
        $host = substr($this->server->url, strlen('http://'));
        self::assertEquals(new RetryScheduled("POST $host /x/:id", 7.0, 1, 429), $this->events->seen[1]);
    }

    public function testTheExceptionHasWhatTheCallerNeeds(): void
    {
        $client = $this->client('default', [self::REFUSED], ['maxRetries' => 1]);
        try {
            $client->get('/things');
            self::fail('it was refused');
        } catch (RateLimitExceeded $error) {
            self::assertSame([7.0, false], [$error->getRetryAfter(), $error->isGlobal()]);
            self::assertSame('slow down', (string) $error->getResponse()->getBody());
            self::assertSame('/things', $error->getRequest()->getUri()->getPath());
        }
        self::assertCount(2, $this->server->requests());
    }

    public function testAWaitThatIsTooLongIsAnExceptionAndNothingIsSent(): void
    {
        $client = $this->client('default', [[429, ['Retry-After' => '86400'], '']], ['maxDelaySeconds' => 60]);
        foreach ([1, 1] as $sent) {
            try {
                $client->get('/');
                self::fail('it is too long');
            } catch (DelayExceeded $error) {
                self::assertSame(86400.0, $error->getRetryAfter());
            }
            self::assertCount($sent, $this->server->requests());
        }
        self::assertSame([], $this->sleeper->sleeps);
    }

    public function testGithubSaysSlowDownWith403(): void
    {
        $slow = [403, ['x-ratelimit-remaining' => '4321'], '{"message": "You have exceeded a secondary rate limit."}'];
        $this->client('github', [$slow, $slow, self::FINE])->get('/user');
        self::assertSame([60.0, 120.0], $this->sleeper->sleeps);

        $denied = [403, ['x-ratelimit-remaining' => '4321'], '{"message": "Resource not accessible"}'];
        $response = $this->client('github', [$denied])->get('/user');
        self::assertSame($denied[2], (string) $response->getBody());
        self::assertSame([], $this->sleeper->sleeps);
    }

    public function testWhatIsLeftIsSpentAndThenWaitedFor(): void
    {
        $headers = ['X-RateLimit-Limit' => '9', 'X-RateLimit-Remaining' => '1', 'X-RateLimit-Reset' => '30'];
        $client = $this->client('default', [[200, $headers, '']], ['safetyBufferSeconds' => 0]);
        foreach (range(1, 3) as $_) {
            $client->get('/');
        }
        self::assertSame([30.0], $this->sleeper->sleeps);
        $delayed = array_filter($this->events->seen, static fn (object $event) => $event instanceof RequestDelayed);
        self::assertSame(['quota'], array_column($delayed, 'reason'));
    }

    public function testRequestsRunTogether(): void
    {
        $limit = new Limit(Policy::fixedWindow(2, 10), scope: 'everything', appliesTo: fn (string $method) => $method === 'GET');
        $client = $this->client('default', [[200, ['X-RateLimit-Limit' => '90', 'X-RateLimit-Remaining' => '80', 'X-RateLimit-Reset' => '600'], '']], ['limits' => [$limit]]);
        $client->get('/first');
        $responses = Promises::unwrap(array_map(fn (int $number) => $client->getAsync("/$number"), range(1, 4)));
        self::assertSame([200, 200, 200, 200], array_map(fn ($response) => $response->getStatusCode(), $responses));
        self::assertSame([10.0, 10.0], array_values(array_filter($this->sleeper->sleeps, fn (float $slept) => $slept > 1)));
    }

    public function testOtherTransfersGoOnWhileARequestWaits(): void
    {
        $this->server = new ApiServer([[200, ['X-RateLimit-Limit' => '9', 'X-RateLimit-Remaining' => '8', 'X-RateLimit-Reset' => '600'], '']]);
        $limit = new Limit(Policy::fixedWindow(1, 2), scope: 'everything', appliesTo: '/slow');
        $stack = HandlerStack::create();
        $stack->push(RateLimitMiddleware::create(store: Store::memory(), options: ['limits' => [$limit]]));
        $client = new Client(['handler' => $stack, 'base_uri' => $this->server->url]);
        $client->get('/slow');
        $order = [];
        $get = function (string $path) use ($client, &$order) {
            return $client->getAsync($path)->then(function () use ($path, &$order): void {
                $order[] = $path;
            });
        };
        Promises::unwrap([$get('/slow'), $get('/fast')]);
        self::assertSame(['/fast', '/slow'], $order);
    }

    public function testAStrategyOfOnesOwn(): void
    {
        $told = [];
        $strategy = function (int $status, int $attempt, ?Observation $observation) use (&$told): ?float {
            $told[] = [$status, $attempt, $observation?->retryAfter];
            return $attempt === 0 ? 2.5 : null;
        };
        $this->client('default', [self::REFUSED, self::REFUSED, self::FINE], ['strategy' => $strategy])->get('/');
        self::assertSame([[429, 0, 7.0], [429, 1, 7.0]], $told);
        self::assertSame([2.5, 7.0], $this->sleeper->sleeps);
    }

    public function testWhatAStrategyThrowsReachesTheCallerAndOthersLearnNevertheless(): void
    {
        $strategy = fn () => throw new \DomainException('no idea');
        $client = $this->client('default', [self::REFUSED, self::FINE], ['strategy' => $strategy]);
        try {
            $client->get('/');
            self::fail('it threw');
        } catch (\DomainException) {
        }
        $client->get('/');
        self::assertSame([7.0], $this->sleeper->sleeps);
    }

    public function testAStoreThatIsAwayBreaksACallOnlyWhereThatWasAskedFor(): void
    {
        $away = 'redis://127.0.0.1:' . Port::free();
        foreach (['open' => 200, 'throw' => null] as $rule => $status) {
            $this->server = new ApiServer([self::FINE]);
            $stack = HandlerStack::create();
            $stack->push(RateLimitMiddleware::create(store: $away, options: ['onError' => $rule]));
            $client = new Client(['handler' => $stack, 'base_uri' => $this->server->url]);
            try {
                self::assertSame($status, $client->get('/')->getStatusCode());
            } catch (StoreUnavailable) {
                self::assertNull($status);
            }
        }
    }

    public function testABodyThatCannotBeRewoundIsNotSentTwice(): void
    {
        $client = $this->client('default', [self::REFUSED, self::FINE]);
        $this->expectException(RateLimitExceeded::class);
        try {
            $client->post('/', ['body' => new NoSeekStream(Utils::streamFor('payload'))]);
        } finally {
            self::assertCount(1, $this->server->requests());
        }
    }

    public function testOptionsOfOneRequest(): void
    {
        $client = $this->client('default', [self::REFUSED]);
        self::assertSame(429, $client->get('/', ['rate_limit' => ['enabled' => false]])->getStatusCode());
        self::assertSame(429, $client->get('/', ['rate_limit' => false])->getStatusCode());
        try {
            $client->get('/', ['rate_limit' => ['bucket' => 'b', 'max_retries' => 0]]);
            self::fail('it was refused');
        } catch (RateLimitExceeded) {
        }
        self::assertCount(3, $this->server->requests());
        foreach ([['retries' => 1], ['max_retries' => '1'], 'no'] as $wrong) {
            try {
                $client->get('/', ['rate_limit' => $wrong]);
                self::fail('it is wrong');
            } catch (InvalidArgument | \TypeError $error) {
                self::assertStringContainsString('rate_limit', $error->getMessage());
            }
        }
    }

    public function testTheOptionDoesNotReachTheNextHandler(): void
    {
        $seen = null;
        $next = function ($request, array $options) use (&$seen) {
            $seen = $options;
            return new \GuzzleHttp\Promise\FulfilledPromise(new \GuzzleHttp\Psr7\Response());
        };
        $handler = RateLimitMiddleware::create(store: Store::memory())($next);
        $handler(new \GuzzleHttp\Psr7\Request('GET', 'https://api.test/'), ['rate_limit' => [], 'timeout' => 5])->wait();
        self::assertSame(['timeout' => 5], $seen);
    }

    public function testAConnectionThatFailsLetsTheNextRequestGo(): void
    {
        $client = $this->client('default', [self::FINE]);
        foreach ([1, 2] as $_) {
            try {
                $client->get('http://127.0.0.1:1/');
                self::fail('nobody is there');
            } catch (\GuzzleHttp\Exception\ConnectException) {
            }
        }
        self::assertSame([], $this->sleeper->sleeps);
    }

    public function testTheExampleOfThePageRuns(): void
    {
        $page = file_get_contents(__DIR__ . '/../../../docs/outbound-guzzle.md');
        self::assertSame(1, preg_match('/^```php\n(.*?)^```/ms', $page, $match));
        $client = eval($match[1] . 'return $client;');
        self::assertInstanceOf(Client::class, $client);
    }

    /** @dataProvider presets */
    public function testThereIsAMiddlewareForEach(string $preset): void
    {
        $middleware = RateLimitMiddleware::$preset(store: Store::memory(), options: 'conservative');
        self::assertSame($preset, $middleware->governor()->preset());
    }

    public static function presets(): iterable
    {
        foreach (['github', 'twitter', 'ietf', 'gitlab', 'twitch', 'reddit', 'shopify', 'discord'] as $preset) {
            yield $preset => [$preset];
        }
    }

    /** @dataProvider wrongOptions */
    public function testOptionsOutOfRangeAreRefused(array $options): void
    {
        $this->expectException(InvalidArgument::class);
        $this->expectExceptionMessageMatches('/^(options|maxRetries|maxDelay|maxStoreTtl|jitter|safetyBuffer|retryStatusCodes) must /');
        RateLimitMiddleware::create(store: Store::memory(), options: $options);
    }

    public static function wrongOptions(): iterable
    {
        foreach (
            [
                ['maxRetries' => -1], ['maxRetries' => 101], ['safetyBufferSeconds' => -1], ['jitterPercent' => 101],
                ['maxDelaySeconds' => 0], ['maxStoreTtl' => 0], ['retryStatusCodes' => [42]], ['retries' => 3],
            ] as $options
        ) {
            yield json_encode($options) => [$options];
        }
    }

    public function testLogsHaveNoCredentialAndNoId(): void
    {
        $logger = new class () extends AbstractLogger {
            public string $text = '';

            public function log($level, $message, array $context = []): void
            {
                $this->text .= "$level $message " . json_encode($context, JSON_UNESCAPED_SLASHES) . "\n";
            }
        };
        $client = $this->client('default', [self::REFUSED, self::FINE], [], $logger);
        $client->get('/users/4711?token=hunter2', ['headers' => ['Authorization' => 'Bearer hunter2']]);
        self::assertStringContainsString('/users/:id', $logger->text);
        self::assertStringNotContainsString('hunter2', $logger->text . serialize($this->events->seen[1]));
        self::assertStringNotContainsString('4711', $logger->text);
    }
}
