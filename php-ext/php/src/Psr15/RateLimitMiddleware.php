<?php

declare(strict_types=1);

namespace RateLimit\Psr15;

use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;
use Psr\Log\LoggerInterface;
use RateLimit\ClientIp;
use RateLimit\Http\Caller;
use RateLimit\Http\Gate;
use RateLimit\Http\KeyResolver;
use RateLimit\Http\Unidentified;
use RateLimit\Limiter;

/**
 * Asks a limiter before a request reaches its handler.
 *
 * An allowed request gets the handler's response with the rate limit headers added; a header that the response has
 * already is left alone, so of two limiters in one pipeline the inner one's stay. A refused request never reaches the
 * handler: it is answered with 429, `Retry-After`, the headers and a problem+json body, or with 503 where the limiter
 * refuses only because its store is away (`onError: 'closed'`).
 *
 *     new RateLimitMiddleware(
 *         new Limiter(Policy::tokenBucket(100, 100, 60)),
 *         new ClientIp(trustedProxies: ['10.0.0.0/8']),
 *         $responseFactory,
 *     );
 *
 * What the limiter throws (`StoreUnavailable` with `onError: 'throw'`, `InvalidCost`) goes on to the application.
 */
final class RateLimitMiddleware implements MiddlewareInterface
{
    private readonly Gate $gate;

    /**
     * @param Limiter|callable(ServerRequestInterface): ?Limiter $limiter one for all requests, or the one for a request,
     *     such as by its route; null lets it pass unlimited
     * @param KeyResolver|callable(ServerRequestInterface): (string|int|\Stringable|array<string, string>|null) $key
     *     whose budget a request spends; an array gives each policy its own key, by the policy's name
     * @param string $headers the family of headers: `ietf`, `draft-7`, `draft-3`, `x-ratelimit`, `x-ratelimit-epoch`,
     *     or `none` for `Retry-After` alone
     * @param string $onMissingKey what to do when the key is null or '', which would make one budget of all callers
     *     that cannot be told apart: `reject` answers 403, `skip` lets the request pass unlimited, `shared` gives such
     *     requests one budget on purpose, `throw` throws a \RuntimeException
     * @param (callable(ServerRequestInterface): int)|null $cost units that a request takes, at least 1; 1 without it
     * @param (callable(ServerRequestInterface): bool)|null $skip whether a request passes unlimited
     * @param (callable(ResponseInterface, ServerRequestInterface): int)|null $after what a request has cost after all, 0
     *     or more, such as 1 for a failed login and 0 for others; see {@see Gate}
     * @param string $body of a refusal: `problem`, `json` or `none`
     * @param ?string $type of the problem, such as `abnormal-usage-detected`; without it `quota-exceeded`
     * @param ?LoggerInterface $logger hears of the first request that does not say who is calling
     * @param ?EventDispatcherInterface $events hears of it, too, as an {@see \RateLimit\Http\IdentityMissing}
     * @throws \InvalidArgumentException when $onMissingKey is none of these; the first answer, when $headers, $body or
     *     $type is not
     */
    public function __construct(
        Limiter|callable $limiter,
        callable|KeyResolver $key,
        private readonly ResponseFactoryInterface $responses,
        private readonly string $headers = 'ietf',
        private readonly string $onMissingKey = 'reject',
        ?callable $cost = null,
        ?callable $skip = null,
        ?callable $after = null,
        private readonly string $body = 'problem',
        private readonly ?string $type = null,
        ?LoggerInterface $logger = null,
        ?EventDispatcherInterface $events = null,
    ) {
        $caller = new Caller($key, $onMissingKey, $logger, $events);
        $this->gate = new Gate($limiter, $caller, $cost, $skip, $after, $logger);
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        try {
            $admission = $this->gate->ask($request);
        } catch (Unidentified $missing) {
            return $this->onMissingKey === 'throw' ? throw $missing : $this->answer(ClientIp::unidentified($this->body));
        }
        if ($admission === null) {
            return $handler->handle($request);
        }
        $refusal = $admission->decision()->refusal($this->headers, $this->body, $this->type);
        if ($refusal !== null) {
            return $this->answer($refusal);
        }
        $response = $handler->handle($request);
        $this->gate->settle($admission, $response, $request);
        foreach ($admission->headers($this->headers) as $name => $value) {
            $response = $response->hasHeader($name) ? $response : $response->withHeader($name, $value);
        }

        return $response;
    }

    /** @param array{status: int, headers: array<string, string>, body: string} $answer */
    private function answer(array $answer): ResponseInterface
    {
        $response = $this->responses->createResponse($answer['status']);
        foreach ($answer['headers'] as $name => $value) {
            $response = $response->withHeader($name, $value);
        }
        $response->getBody()->write($answer['body']);

        return $response;
    }
}
