<?php

declare(strict_types=1);

namespace RateLimit\Laravel;

use Illuminate\Http\Request;
use Illuminate\Http\Response as Answer;
use Psr\Log\LoggerInterface;
use RateLimit\ClientIp;
use RateLimit\Decision;
use RateLimit\Http\Admission;
use RateLimit\Http\Caller;
use RateLimit\Http\Gate;
use RateLimit\Http\Unidentified;
use Symfony\Component\HttpFoundation\Response;

/**
 * The middleware `ratelimit:NAME`, where a name is one of `RateLimiter::for()`, of the configuration, or a policy such as
 * `100/m`. In place of `throttle:NAME` it asks the extension.
 *
 * A refused request is answered with 429, `Retry-After` and the headers and the body of the configuration, or with what
 * `Limit::response()` makes; with 503 where the limiter refuses only because its store is away.
 */
final class RateLimitMiddleware
{
    private readonly Caller $caller;

    /** @param array<string, mixed> $config of the file `config/ratelimit.php` */
    public function __construct(
        private readonly Limiters $limiters,
        private readonly array $config,
        private readonly ?LoggerInterface $logger = null,
    ) {
        $key = static fn (Limitation $limitation) => $limitation->key;
        $this->caller = new Caller($key, $config['on_missing_key'], $logger);
    }

    /** @param \Closure(Request): Response $next */
    public function handle(Request $request, \Closure $next, string $name = 'api'): Response
    {
        $limitation = $this->limiters->for($name, $request);
        if ($limitation instanceof Response) {
            return $limitation;
        }
        if ($limitation === null) {
            return $next($request);
        }
        $gate = new Gate($limitation->limiter, $this->caller, after: self::after($limitation), logger: $this->logger);
        try {
            $admission = $gate->ask($limitation);
        } catch (Unidentified $missing) {
            return $this->caller->onMissingKey === 'throw' ? throw $missing : self::answer(ClientIp::unidentified($this->config['body']));
        }
        if ($admission === null) {
            return $next($request);
        }
        $decision = $admission->decision();
        $refusal = $decision->refusal($this->config['headers'], $this->config['body']);
        if ($refusal !== null) {
            return self::own($limitation, $decision, $request, $refusal['headers']) ?? self::answer($refusal);
        }
        $response = $next($request);
        $gate->settle($admission, $response, $request);

        return $this->withHeaders($response, $admission);
    }

    private function withHeaders(Response $response, Admission $admission): Response
    {
        foreach ($admission->headers($this->config['headers']) as $name => $value) {
            // Of two limiters the inner one's stay.
            if (!$response->headers->has($name)) {
                $response->headers->set($name, $value);
            }
        }

        return $response;
    }

    /**
     * What `Limit::response()` of the limit that ruled answers.
     *
     * @param array<string, string> $headers
     */
    private static function own(Limitation $limitation, Decision $decision, Request $request, array $headers): ?Response
    {
        foreach ($decision->each() as $at => $each) {
            $callback = $limitation->limits[$at]->responseCallback ?? null;
            if ($callback !== null && $each->policy === $decision->policy) {
                unset($headers['Content-Type']);

                return $callback($request, $headers);
            }
        }

        return null;
    }

    /** Newer versions of Laravel have `Limit::after()`, which says by the response whether it counts. */
    private static function after(Limitation $limitation): ?\Closure
    {
        $callbacks = array_filter(array_map(static fn (object $limit) => $limit->afterCallback ?? null, $limitation->limits));

        return $callbacks === [] ? null : static function (Response $response) use ($callbacks): int {
            $counts = static fn (callable $callback) => (bool) $callback($response);

            return array_filter($callbacks, $counts) === [] ? 0 : 1;
        };
    }

    /** @param array{status: int, headers: array<string, string>, body: string} $answer */
    private static function answer(array $answer): Response
    {
        return new Answer($answer['body'], $answer['status'], $answer['headers']);
    }
}
