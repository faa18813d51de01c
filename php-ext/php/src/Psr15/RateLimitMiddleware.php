<?php

declare(strict_types=1);

namespace RateLimit\Psr15;

use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;
use RateLimit\Decision;
use RateLimit\Http\KeyResolver;
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
 *         fn (ServerRequestInterface $request) => $request->getServerParams()['REMOTE_ADDR'] ?? null,
 *         $responseFactory,
 *     );
 *
 * What the limiter throws (`StoreUnavailable` with `onError: 'throw'`, `InvalidCost`) goes on to the application.
 */
final class RateLimitMiddleware implements MiddlewareInterface
{
    private readonly \Closure $key;
    private readonly ?\Closure $cost;

    /**
     * @param KeyResolver|callable(ServerRequestInterface): (string|int|\Stringable|array<string, string>|null) $key
     *     whose budget a request spends; an array gives each policy its own key, by the policy's name
     * @param string $headers the family of headers: `ietf`, `draft-7`, `draft-3`, `x-ratelimit`, or `none` for
     *     `Retry-After` alone
     * @param string $onMissingKey what to do when the key is null or '', which would make one budget of all callers
     *     that cannot be told apart: `reject` answers 403, `skip` lets the request pass unlimited, `throw` throws a
     *     \RuntimeException
     * @param (callable(ServerRequestInterface): int)|null $cost units that a request takes, at least 1; 1 without it
     * @throws \InvalidArgumentException when $onMissingKey is none of these; the first answer, when $headers is not
     */
    public function __construct(
        private readonly Limiter $limiter,
        callable|KeyResolver $key,
        private readonly ResponseFactoryInterface $responses,
        private readonly string $headers = 'ietf',
        private readonly string $onMissingKey = 'reject',
        ?callable $cost = null,
    ) {
        if (!in_array($onMissingKey, ['reject', 'skip', 'throw'], true)) {
            throw new \InvalidArgumentException("onMissingKey must be reject, skip or throw, got \"$onMissingKey\"");
        }
        $this->key = $key instanceof KeyResolver ? $key->resolve(...) : $key(...);
        $this->cost = $cost === null ? null : $cost(...);
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        $key = self::checked(($this->key)($request));
        if ($key === null) {
            return match ($this->onMissingKey) {
                'reject' => $this->problem(403, 'Forbidden', 'The request does not say who is calling.', []),
                'skip' => $handler->handle($request),
                'throw' => throw new \RuntimeException('The key of a request was null or empty, so nobody could be limited.'),
            };
        }
        $decision = $this->limiter->allow($key, $this->cost === null ? 1 : ($this->cost)($request));
        if (!$decision->allowed) {
            return $this->refusal($decision);
        }
        $response = $handler->handle($request);
        foreach ($decision->headers($this->headers) as $name => $value) {
            $response = $response->hasHeader($name) ? $response : $response->withHeader($name, $value);
        }

        return $response;
    }

    private function refusal(Decision $decision): ResponseInterface
    {
        $fields = $decision->headers($this->headers);
        $when = match (true) {
            !isset($fields['Retry-After']) => 'No wait will help.',
            $fields['Retry-After'] === '1' => 'Try again in 1 second.',
            default => "Try again in {$fields['Retry-After']} seconds.",
        };

        return $decision->source === 'fail_closed'
            ? $this->problem(503, 'Service Unavailable', "Requests cannot be counted at the moment. $when", $fields)
            : $this->problem(429, 'Too Many Requests', "The rate limit of {$decision->limit} is used up. $when", $fields);
    }

    /** @param array<string, string> $fields */
    private function problem(int $status, string $title, string $detail, array $fields): ResponseInterface
    {
        $response = $this->responses->createResponse($status, $title);
        $fields += ['Content-Type' => 'application/problem+json', 'Cache-Control' => 'no-store'];
        foreach ($fields as $name => $value) {
            $response = $response->withHeader($name, $value);
        }
        $body = ['title' => $title, 'status' => $status, 'detail' => $detail];
        $response->getBody()->write(json_encode($body, JSON_THROW_ON_ERROR));

        return $response;
    }

    /** The key as the limiter takes it; null when it, or one of its parts, names nobody. */
    private static function checked(mixed $key): string|array|null
    {
        if (is_array($key)) {
            $parts = array_map(self::checked(...), $key);

            return $parts === [] || in_array(null, $parts, true) ? null : $parts;
        }
        if ($key !== null && !is_string($key) && !is_int($key) && !$key instanceof \Stringable) {
            throw new \TypeError('key must give a string, an int, an array of them or null, got ' . get_debug_type($key));
        }

        return (string) $key === '' ? null : (string) $key;
    }
}
