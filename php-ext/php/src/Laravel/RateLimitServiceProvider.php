<?php

declare(strict_types=1);

namespace RateLimit\Laravel;

use Illuminate\Cache\RateLimiter;
use Illuminate\Routing\Router;
use Illuminate\Support\ServiceProvider;

/** Binds the middleware `ratelimit` and the file `config/ratelimit.php`. */
final class RateLimitServiceProvider extends ServiceProvider
{
    private const CONFIG = __DIR__ . '/../../config/ratelimit.php';

    public function register(): void
    {
        $this->mergeConfigFrom(self::CONFIG, 'ratelimit');
        $this->app->singleton(Limiters::class, static function ($app): Limiters {
            $named = static fn (string $name) => $app->make(RateLimiter::class)->limiter($name);

            return new Limiters($app['config']['ratelimit'], $named);
        });
        $this->app->singleton(RateLimitMiddleware::class, static fn ($app) => new RateLimitMiddleware(
            $app->make(Limiters::class),
            $app['config']['ratelimit'],
            $app->bound('log') ? $app['log'] : null,
        ));
    }

    public function boot(Router $router): void
    {
        $router->aliasMiddleware('ratelimit', RateLimitMiddleware::class);
        $this->publishes([self::CONFIG => $this->app->configPath('ratelimit.php')], 'ratelimit-config');
    }
}
