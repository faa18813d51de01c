<?php

declare(strict_types=1);

namespace RateLimit\Symfony;

use RateLimit\Limiter;
use RateLimit\Policy;
use Symfony\Component\RateLimiter\LimiterInterface;
use Symfony\Component\RateLimiter\Policy\NoLimiter;

/**
 * Makes limiters for keys, from the configuration of Symfony's own factory.
 *
 *     $factory = new LimiterFactory(['id' => 'login', 'policy' => 'fixed_window', 'limit' => 5, 'interval' => '1 minute']);
 *     $factory->create($request->getClientIp())->consume();
 *
 * The store is the one of `ratelimit.store`, or the one given; a list of configurations, with an id each, makes one
 * limiter that is charged all or nothing.
 */
final class LimiterFactory implements FactoryInterface
{
    /** None where there is no limit. */
    private readonly ?Limiter $limiter;

    /**
     * @param Limiter|array<string, mixed>|list<array<string, mixed>> $config a limiter, or `id`, `policy` (token_bucket,
     *     fixed_window, sliding_window or no_limit), `limit`, `interval` and `rate` (`interval` and `amount`)
     * @param mixed $store as for {@see Limiter}; only with a configuration
     * @param string $onError as for {@see Limiter}; only with a configuration
     * @throws \InvalidArgumentException for a configuration that is none
     */
    public function __construct(Limiter|array $config, mixed $store = null, string $onError = 'throw')
    {
        if ($config instanceof Limiter) {
            $this->limiter = $config;

            return;
        }
        $policies = array_filter(array_map(self::policy(...), array_is_list($config) ? $config : [$config]));
        $this->limiter = $policies === [] ? null : new Limiter(array_values($policies), $store, $onError);
    }

    /** The limiter of a key; without one all share one budget. */
    public function create(?string $key = null): LimiterInterface
    {
        return $this->limiter === null ? new NoLimiter() : new LimiterAdapter($this->limiter, $key ?? '');
    }

    /** @param array<string, mixed> $config */
    private static function policy(array $config): ?Policy
    {
        $number = static fn (string $name) => $config[$name]
            ?? throw new \InvalidArgumentException("A rate limiter of the policy {$config['policy']} needs \"$name\".");
        $name = (string) ($config['id'] ?? 'default');
        $rate = $config['rate'] ?? [];

        return match ($config['policy'] ?? null) {
            'token_bucket' => Policy::tokenBucket(
                $number('limit'),
                $rate['amount'] ?? 1,
                self::seconds($rate['interval'] ?? $number('rate')),
                name: $name,
            ),
            'fixed_window' => Policy::fixedWindow($number('limit'), self::seconds($number('interval')), name: $name),
            'sliding_window' => Policy::slidingWindowCounter($number('limit'), self::seconds($number('interval')), name: $name),
            'no_limit' => null,
            default => throw new \InvalidArgumentException(
                'policy must be token_bucket, fixed_window, sliding_window or no_limit, got ' . json_encode($config['policy'] ?? null),
            ),
        };
    }

    /** An interval such as `15 minutes`, counted from 1970 in UTC, where no day has 23 hours. */
    private static function seconds(mixed $interval): float
    {
        $end = is_string($interval) ? @(new \DateTimeImmutable('@0'))->modify("+$interval") : false;
        if ($end === false || $end->getTimestamp() <= 0) {
            throw new \InvalidArgumentException('interval must be a text such as "15 minutes", got ' . json_encode($interval));
        }

        return (float) $end->getTimestamp();
    }
}
