<?php

// One request after another through a middleware, in memory, so that the middleware is what is counted.
//
//   middleware.php WAY CALLS     makes so many requests and ends

declare(strict_types=1);

error_reporting(E_ALL & ~E_DEPRECATED); // The frameworks of Debian are older than this PHP.

[, $way, $calls] = $argv;

require __DIR__ . '/../../php-ext/php/tests/Support/psr15.php';
require __DIR__ . '/../../php-ext/php/autoload.php';

const MANY = 1_000_000;

$load = function (string ...$packages): void {
    foreach ($packages as $package) {
        foreach (glob("/usr/share/php/$package/autoload.php") as $file) {
            require_once $file;
        }
    }
};

/** The handler of a PSR-15 application alone, or behind our middleware. */
$psr15 = function (bool $limited) use ($load): Closure {
    $load('Nyholm/Psr7');
    $handler = new class () implements Psr\Http\Server\RequestHandlerInterface {
        public function handle(Psr\Http\Message\ServerRequestInterface $request): Psr\Http\Message\ResponseInterface
        {
            return new Nyholm\Psr7\Response();
        }
    };
    $request = new Nyholm\Psr7\ServerRequest('GET', '/', serverParams: ['REMOTE_ADDR' => '192.0.2.1']);
    $limiter = new RateLimit\Limiter(RateLimit\Policy::fixedWindow(MANY, 3600.0), 'memory:');
    $factory = new Nyholm\Psr7\Factory\Psr17Factory();
    $middleware = new RateLimit\Psr15\RateLimitMiddleware($limiter, new RateLimit\Http\ClientIp(), $factory);

    return $limited ? fn () => $middleware->process($request, $handler) : fn () => $handler->handle($request);
};

/** The route of a Laravel application alone, or behind a middleware: ours or Laravel's. */
$laravel = function (?string $kind) use ($load): Closure {
    $load('Illuminate/*');
    $request = Illuminate\Http\Request::create('/', server: ['REMOTE_ADDR' => '192.0.2.1']);
    $request->setRouteResolver(fn () => new Illuminate\Routing\Route('GET', '/', []));
    $next = fn () => new Illuminate\Http\Response();
    $cache = new Illuminate\Cache\RateLimiter(new Illuminate\Cache\Repository(new Illuminate\Cache\ArrayStore()));
    if ($kind === 'throttle') {
        $throttle = new Illuminate\Routing\Middleware\ThrottleRequests($cache);

        return fn () => $throttle->handle($request, $next, MANY, 60);
    }
    $config = ['store' => 'memory:', 'limiters' => ['api' => MANY . '/h']] + require __DIR__ . '/../../php-ext/php/config/ratelimit.php';
    $middleware = new RateLimit\Laravel\RateLimitMiddleware(new RateLimit\Laravel\Limiters($config, $cache->limiter(...)), $config);

    return $kind === null ? fn () => $next() : fn () => $middleware->handle($request, $next, 'api');
};

/** A limiter of Symfony's interface: ours or Symfony's. */
$symfony = function (bool $ours) use ($load): Closure {
    $load('Symfony/Component/RateLimiter', 'Symfony/Component/OptionsResolver');
    $config = ['id' => 'api', 'policy' => 'fixed_window', 'limit' => MANY, 'interval' => '1 hour'];
    $storage = new Symfony\Component\RateLimiter\Storage\InMemoryStorage();
    $factory = $ours
        ? new RateLimit\Symfony\LimiterFactory($config, 'memory:')
        : new Symfony\Component\RateLimiter\RateLimiterFactory($config, $storage);

    return fn () => $factory->create('192.0.2.1')->consume();
};

$request = match ($way) {
    'psr15_none' => $psr15(false),
    'psr15' => $psr15(true),
    'laravel_none' => $laravel(null),
    'laravel' => $laravel('ours'),
    'laravel_throttle' => $laravel('throttle'),
    'symfony' => $symfony(true),
    'symfony_own' => $symfony(false),
};
for ($request(); $calls-- > 0;) {
    $request();
}
