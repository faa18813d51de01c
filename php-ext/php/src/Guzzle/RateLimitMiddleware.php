<?php

declare(strict_types=1);

namespace RateLimit\Guzzle;

use GuzzleHttp\Handler\CurlMultiHandler;
use GuzzleHttp\Promise\Create;
use GuzzleHttp\Promise\Promise;
use GuzzleHttp\Promise\PromiseInterface;
use GuzzleHttp\Psr7\Utils;
use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Log\LoggerInterface;
use RateLimit\Clock;
use RateLimit\ManualClock;
use RateLimit\Outbound\Fail;
use RateLimit\Outbound\Go;
use RateLimit\Outbound\Governor;
use RateLimit\Outbound\Refuse;
use RateLimit\Outbound\Retry;
use RateLimit\Outbound\Ticket;
use RateLimit\Outbound\Wait;

/**
 * Keeps a Guzzle client under an API's limits: waits before they are met, and sends again what may be.
 *
 * ```php
 * $stack = HandlerStack::create();
 * $stack->push(RateLimitMiddleware::github(), 'rate_limit');
 * $client = new Client(['handler' => $stack]);
 * $client->get('https://api.github.com/user', ['rate_limit' => ['max_delay' => 5]]);
 * ```
 *
 * Everyone who uses the same store shares what is learnt. A request option `rate_limit` may have `enabled`, `bucket`,
 * `identity`, `max_delay` and `max_retries`, and does not reach the next handler. A body that cannot be rewound is not
 * sent twice.
 *
 * A wait is a promise: nothing sleeps before somebody waits for it, and where the next handler is a `CurlMultiHandler`, or
 * Guzzle's default, other transfers go on meanwhile.
 */
final class RateLimitMiddleware
{
    /** Bodies of successes that are larger are not looked into. */
    private const MAX_BODY = 1 << 20;

    private readonly \Closure $sleeper;

    private readonly \Closure $now;

    private ?CurlMultiHandler $multi = null;

    /**
     * @param callable(float): void|null $sleeper What sleeps; by default a `ManualClock` is moved, any other clock waited for.
     */
    public function __construct(
        private readonly Governor $governor,
        private readonly ?EventDispatcherInterface $events = null,
        private readonly ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ) {
        $this->now = $clock !== null ? $clock->now(...) : static fn (): float => hrtime(true) / 1e9;
        $this->sleeper = match (true) {
            $sleeper !== null => $sleeper(...),
            $clock instanceof ManualClock => $clock->advance(...),
            default => $this->sleep(...),
        };
    }

    /**
     * A middleware for an API that speaks one of the common families of headers, or for the one that `$preset` names.
     *
     * @param mixed                       $store   null (the default store), a DSN, a Store, a connected Redis or a Predis client.
     * @param array<string, mixed>|string $options Options, or `default`, `conservative` or `aggressive`.
     * @param callable(float): void|null  $sleeper
     */
    public static function create(
        string $preset = 'default',
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        if (is_string($options)) {
            $preset = $preset === 'default' ? $options : "$preset+$options";
            $options = [];
        }
        $governor = new Governor($preset, $store, ...Options::governor($options), clock: $clock);
        return new self($governor, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for GitHub; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function github(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('github', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for X, formerly Twitter; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function twitter(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('twitter', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for any API with the fields of the IETF draft; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function ietf(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('ietf', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for GitLab; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function gitlab(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('gitlab', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for Twitch; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function twitch(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('twitch', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for Reddit; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function reddit(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('reddit', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for Shopify; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function shopify(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('shopify', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /**
     * A middleware for Discord; the arguments are those of {@see create()}.
     *
     * @param array<string, mixed>|string $options
     * @param callable(float): void|null  $sleeper
     */
    public static function discord(
        mixed $store = null,
        array|string $options = [],
        ?EventDispatcherInterface $events = null,
        ?LoggerInterface $logger = null,
        ?Clock $clock = null,
        ?callable $sleeper = null,
    ): self {
        return self::create('discord', $store, $options, $events, $logger, $clock, $sleeper);
    }

    /** The governor that decides, for a look at its state. */
    public function governor(): Governor
    {
        return $this->governor;
    }

    /** Wraps the next handler. */
    public function __invoke(callable $handler): callable
    {
        $this->multi ??= self::multi($handler);
        return function (RequestInterface $request, array $options) use ($handler): PromiseInterface {
            $own = Options::request($options['rate_limit'] ?? []);
            unset($options['rate_limit']);
            $body = $request->getBody();
            if (!$body->isSeekable() && $body->getSize() !== 0) {
                $own['maxRetries'] = 0;
            }
            $authorization = $request->hasHeader('Authorization') ? $request->getHeaderLine('Authorization') : null;
            $answer = $this->governor->before(
                $request->getMethod(),
                (string) $request->getUri(),
                $authorization,
                ...$own,
            );
            return $this->proceed($answer, $handler, $request, $options);
        };
    }

    /** The handler that runs several transfers, where the next one is it, or a function around it as Guzzle's default is. */
    private static function multi(callable $handler): ?CurlMultiHandler
    {
        if ($handler instanceof CurlMultiHandler) {
            return $handler;
        }
        if ($handler instanceof \Closure) {
            foreach ((new \ReflectionFunction($handler))->getStaticVariables() as $inside) {
                if (is_object($inside) && is_callable($inside) && ($found = self::multi($inside)) !== null) {
                    return $found;
                }
            }
        }
        return null;
    }

    /** What an answer before the request asks for. */
    private function proceed(
        Go|Wait|Refuse $answer,
        callable $handler,
        RequestInterface $request,
        array $options,
    ): PromiseInterface {
        if ($answer instanceof Go) {
            return $this->send($answer->ticket, $handler, $request, $options);
        }
        if ($answer instanceof Refuse) {
            $route = "{$request->getMethod()} {$request->getUri()->getHost()}";
            $this->tell(new Event\LimitExceeded($route, $answer->delay, false));
            $text = "the request would have to wait {$answer->delay} s ({$answer->reason}), which is more than max_delay";
            return Create::rejectionFor(new DelayExceeded($text, $request, null, $answer->delay, false));
        }
        $this->tell(new Event\RequestDelayed($answer->ticket->route, $answer->delay, $answer->reason));
        return $this->later($answer->delay, $answer->ticket, $handler, $request, $options);
    }

    /** Asks again after a while. */
    private function later(
        float $delay,
        Ticket $ticket,
        callable $handler,
        RequestInterface $request,
        array $options,
    ): PromiseInterface {
        // Promises are waited for one after the other, their time passes together.
        $due = ($this->now)() + $delay;
        $promise = new Promise(function () use (&$promise, $delay, $due, $ticket, $handler, $request, $options): void {
            try {
                $left = $due - ($this->now)();
                if ($left > 0) {
                    ($this->sleeper)($delay - $left < 0.001 ? $delay : $left);
                }
                $promise->resolve($this->proceed($this->governor->resume($ticket), $handler, $request, $options));
            } catch (\Throwable $error) {
                $promise->reject($error);
            }
        });
        return $promise;
    }

    private function send(Ticket $ticket, callable $handler, RequestInterface $request, array $options): PromiseInterface
    {
        try {
            $sent = $handler($request, $options);
        } catch (\Throwable $error) {
            $this->governor->abandon($ticket);
            throw $error;
        }
        return $sent->then(
            fn (ResponseInterface $response) => $this->receive($ticket, $handler, $request, $options, $response),
            function (mixed $reason) use ($ticket): PromiseInterface {
                $this->governor->abandon($ticket);
                return Create::rejectionFor($reason);
            },
        );
    }

    private function receive(
        Ticket $ticket,
        callable $handler,
        RequestInterface $request,
        array $options,
        ResponseInterface $response,
    ): ResponseInterface|PromiseInterface {
        $status = $response->getStatusCode();
        [$body, $response] = $this->body($response);
        $after = $this->governor->after($ticket, $status, $response->getHeaders(), $body);
        if ($after->observation !== null) {
            $this->tell(new Event\StateUpdated($ticket->route, $after->observation));
        }
        if ($after->invalidLimitReached) {
            $this->tell(new Event\InvalidRequestLimitReached($ticket->route));
        }
        if ($after instanceof Fail) {
            $this->tell(new Event\LimitExceeded($ticket->route, $after->retryAfter, $after->global));
            $class = $after->tooLong ? DelayExceeded::class : RateLimitExceeded::class;
            $text = "{$ticket->route} was refused with $status; retry after {$after->retryAfter} s";
            throw new $class($text, $request, $response, $after->retryAfter, $after->global);
        }
        if (!$after instanceof Retry) {
            return $response;
        }
        $this->tell(new Event\RetryScheduled($ticket->route, $after->delay, $after->attempt, $status));
        // Read to its end, so that the connection can be used again.
        $response->getBody()->isReadable() && $response->getBody()->getContents();
        $response->getBody()->close();
        if ($request->getBody()->isSeekable()) {
            $request->getBody()->rewind();
        }
        return $this->later($after->delay, $after->ticket, $handler, $request, $options);
    }

    /**
     * The body that the governor wants to see, and the response, whose body the caller can still read.
     *
     * @return array{string, ResponseInterface}
     */
    private function body(ResponseInterface $response): array
    {
        $status = $response->getStatusCode();
        $stream = $response->getBody();
        if (!$this->governor->readsBody($status) || !$stream->isReadable()) {
            return ['', $response];
        }
        if ($status < 400) {
            $json = str_contains($response->getHeaderLine('Content-Type'), 'json');
            if (!$json || !$stream->isSeekable() || ($stream->getSize() ?? 0) > self::MAX_BODY) {
                return ['', $response];
            }
        }
        if ($stream->isSeekable()) {
            $stream->rewind();
            $text = $stream->getContents();
            $stream->rewind();
            return [$text, $response];
        }
        $text = $stream->getContents();
        return [$text, $response->withBody(Utils::streamFor($text))];
    }

    /** Sleeps, while other transfers go on where that is possible. */
    private function sleep(float $seconds): void
    {
        $ends = microtime(true) + $seconds;
        while (($left = $ends - microtime(true)) > 0) {
            if ($this->multi !== null) {
                $this->multi->tick();
                $left = min($left, 0.01);
            }
            usleep((int) ceil($left * 1e6));
        }
    }

    private function tell(object $event): void
    {
        $this->events?->dispatch($event);
        if ($this->logger !== null) {
            $context = array_filter(get_object_vars($event), is_scalar(...));
            $this->logger->debug('rate limit: ' . (new \ReflectionClass($event))->getShortName(), $context);
        }
    }
}
