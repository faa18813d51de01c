<?php

declare(strict_types=1);

namespace RateLimit\Laravel;

use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Cache\RateLimiting\Unlimited;
use Illuminate\Http\Request;
use RateLimit\ClientIp;
use RateLimit\Limiter;
use RateLimit\Policy;
use Symfony\Component\HttpFoundation\Response;

/** Finds the limiter that a route names: in `RateLimiter::for()`, in the configuration, or in the name itself, `100/m`. */
final class Limiters
{
    private readonly ClientIp $clientIp;
    /** @var array<string, Limiter> */
    private array $made = [];

    /**
     * @param array<string, mixed> $config of the file `config/ratelimit.php`
     * @param \Closure(string): ?\Closure $named what `RateLimiter::for()` has registered under a name
     */
    public function __construct(private readonly array $config, private readonly \Closure $named)
    {
        $this->clientIp = new ClientIp($config['trusted_proxies'], $config['ipv6_prefix'], $config['forwarded_header']);
    }

    /**
     * What limits a request; a response in place of an answer; null for no limit.
     *
     * @throws \RateLimit\Exception\InvalidPolicy for a name that is no limiter's and no policy
     */
    public function for(string $name, Request $request): Limitation|Response|null
    {
        $callback = ($this->named)($name);
        if ($callback !== null) {
            $limits = $callback($request);
            $none = $limits === null || $limits instanceof Unlimited || $limits === [];

            return $limits instanceof Response ? $limits : ($none ? null : $this->ofLimits($name, $limits));
        }
        $texts = (array) ($this->config['limiters'][$name] ?? $name);
        $policies = fn () => $this->policies($name, array_map(static fn (string $text) => Policy::parse($text), $texts));

        return new Limitation($this->made[$name] ??= $this->limiter($policies()), $this->caller($request));
    }

    /** The limits of Laravel, as one limiter that is charged all or nothing. */
    private function ofLimits(string $name, mixed $limits): Limitation
    {
        $limits = array_values(is_array($limits) ? $limits : [$limits]);
        $policies = $this->policies($name, array_map(
            static fn (Limit $limit) => Policy::fixedWindow($limit->maxAttempts, $limit->decaySeconds ?? $limit->decayMinutes * 60),
            $limits,
        ));
        // A key of '' is one budget for all, which is what a limit without by() says in Laravel.
        $keys = array_map(static fn (Limit $limit) => "by:{$limit->key}", $limits);
        $key = array_combine(array_map(static fn (Policy $policy) => $policy->name, $policies), $keys);

        return new Limitation($this->limiter($policies), $key, $limits);
    }

    /** The user who is logged in, else the address; null where nobody can tell. */
    private function caller(Request $request): ?string
    {
        $user = $request->user()?->getAuthIdentifier();
        if ($user !== null) {
            return "user:$user";
        }
        $address = $this->clientIp->resolve(
            $request->server('REMOTE_ADDR'),
            $request->headers->all('Forwarded'),
            $request->headers->all('X-Forwarded-For'),
        );

        return $address === null ? null : "ip:$address";
    }

    /**
     * The policies under the limiter's name, numbered where there are several.
     *
     * @param list<Policy> $policies
     * @return list<Policy>
     */
    private function policies(string $name, array $policies): array
    {
        $several = count($policies) > 1;
        $named = static fn (Policy $policy, int $at) => Policy::parse((string) $policy, $several ? "$name-" . ($at + 1) : $name);

        return array_map($named, $policies, array_keys($policies));
    }

    /** @param list<Policy> $policies */
    private function limiter(array $policies): Limiter
    {
        $config = $this->config;

        return new Limiter($policies, $config['store'], $config['on_error'], 1, $config['hash_keys'], $config['secret']);
    }
}
