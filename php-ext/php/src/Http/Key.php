<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\Http\Message\ServerRequestInterface;

/**
 * Makes the usual resolvers of keys.
 *
 * What the caller wrote himself is hashed, so that no token is readable in a store: with HMAC-SHA-256 where there is a
 * secret, else with SHA-256, which hides only what cannot be guessed.
 */
final class Key implements KeyResolver
{
    private function __construct(private readonly \Closure $resolve)
    {
    }

    /** @return string|array<string, string>|null */
    public function resolve(ServerRequestInterface $request): string|array|null
    {
        return ($this->resolve)($request);
    }

    /** The user who is logged in, from an attribute of the request: an id, or an object with a method that gives one. */
    public static function user(string $attribute = 'user'): self
    {
        return self::attribute($attribute);
    }

    /** The tenant, from an attribute of the request. */
    public static function tenant(string $attribute = 'tenant'): self
    {
        return self::attribute($attribute);
    }

    /** An attribute of the request, which the application has set. */
    public static function attribute(string $name): self
    {
        return new self(static function (ServerRequestInterface $request) use ($name): ?string {
            $value = $request->getAttribute($name);
            foreach (['getUserIdentifier', 'getAuthIdentifier', 'getIdentifier', 'getId'] as $method) {
                $value = is_object($value) && method_exists($value, $method) ? $value->{$method}() : $value;
            }

            return is_string($value) || is_int($value) || $value instanceof \Stringable ? (string) $value : null;
        });
    }

    /** An API key, hashed; of `Authorization` what follows the scheme. */
    public static function apiKey(string $header = 'X-API-Key', ?string $secret = null): self
    {
        return new self(static function (ServerRequestInterface $request) use ($header, $secret): ?string {
            $value = $request->getHeaderLine($header);
            if (strcasecmp($header, 'Authorization') === 0) {
                $value = trim(strpbrk($value, ' ') ?: '');
            }

            return self::hashed($value, $secret);
        });
    }

    /** A header, hashed. The caller writes it, so it makes a key only where something before has checked it. */
    public static function header(string $name, ?string $secret = null): self
    {
        return new self(static fn (ServerRequestInterface $request) => self::hashed($request->getHeaderLine($name), $secret));
    }

    /** A cookie, hashed. The caller writes it, so it makes a key only where something before has checked it. */
    public static function cookie(string $name, ?string $secret = null): self
    {
        return new self(static function (ServerRequestInterface $request) use ($name, $secret): ?string {
            $value = $request->getCookieParams()[$name] ?? null;

            return is_string($value) ? self::hashed($value, $secret) : null;
        });
    }

    /** The method and path of the request, or the name that a router has put into an attribute. */
    public static function route(?string $attribute = null): self
    {
        return $attribute !== null
            ? self::attribute($attribute)
            : new self(static fn (ServerRequestInterface $it) => "{$it->getMethod()} {$it->getUri()->getPath()}");
    }

    /** All of them together: one budget for each combination. Null where one is. */
    public static function all(callable|KeyResolver ...$parts): self
    {
        return new self(static function (ServerRequestInterface $request) use ($parts): ?string {
            $keys = [];
            foreach ($parts as $part) {
                $key = self::ask($part, $request);
                if ($key === null) {
                    return null;
                }
                // No two combinations read the same.
                $keys[] = strtr($key, ['%' => '%25', '|' => '%7C']);
            }

            return $keys === [] ? null : implode('|', $keys);
        });
    }

    /** The first that is known, such as the user, else the address. A user is never taken for an address. */
    public static function first(callable|KeyResolver ...$choices): self
    {
        return new self(static function (ServerRequestInterface $request) use ($choices): ?string {
            foreach (array_values($choices) as $number => $choice) {
                $key = self::ask($choice, $request);
                if ($key !== null) {
                    return "$number:$key";
                }
            }

            return null;
        });
    }

    private static function ask(callable|KeyResolver $resolver, ServerRequestInterface $request): ?string
    {
        $key = (string) ($resolver instanceof KeyResolver ? $resolver->resolve($request) : $resolver($request));

        return $key === '' ? null : $key;
    }

    private static function hashed(string $value, ?string $secret): ?string
    {
        if ($value === '') {
            return null;
        }

        return $secret === null ? hash('sha256', $value) : hash_hmac('sha256', $value, $secret);
    }
}
