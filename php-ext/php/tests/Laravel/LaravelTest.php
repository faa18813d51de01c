<?php

declare(strict_types=1);

namespace RateLimit\Tests\Laravel;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Support\Application;
use RateLimit\Tests\Support\Port;
use RateLimit\Tests\Support\RedisServer;

/** The middleware in a Laravel application that is booted for each request. */
final class LaravelTest extends TestCase
{
    private const PROVIDER = <<<'PHP'
        <?php

        namespace App\Providers;

        use Illuminate\Cache\RateLimiting\Limit;
        use Illuminate\Http\Request;
        use Illuminate\Support\Facades\RateLimiter;
        use Illuminate\Support\ServiceProvider;

        final class AppServiceProvider extends ServiceProvider
        {
            public function boot(): void
            {
                RateLimiter::for('two', fn (Request $request) => [
                    Limit::perMinute(1)->by($request->input('user')),
                    Limit::perHour(3)->response(fn (Request $request, array $headers) => response('my own', 429, $headers)),
                ]);
                RateLimiter::for('none', fn () => Limit::none());
                RateLimiter::for('answer', fn () => response('not today', 451));
                RateLimiter::for('inner', fn () => Limit::perMinute(2)->by('a'));
                RateLimiter::for('outer', fn () => Limit::perMinute(9)->by('a'));
            }
        }
        PHP;

    private const ROUTES = <<<'PHP'
        <?php

        use Illuminate\Support\Facades\Route;

        foreach (['two', 'none', 'answer', 'api', '3/m', 'nonsense'] as $number => $name) {
            Route::get("/r$number", fn () => "hello")->middleware("ratelimit:$name");
        }
        Route::get('/nested', fn () => "hello")->middleware(['ratelimit:outer', 'ratelimit:inner']);
        PHP;

    public function testOfSeveralLimitsARefusalByOneCostsTheOthersNothing(): void
    {
        $application = $this->application();
        self::assertSame(200, $application->ask('/r0?user=ann')['status'], $application->log());
        for ($sent = 0; $sent < 5; $sent += 1) {
            $refused = $application->ask('/r0?user=ann');
            self::assertSame(429, $refused['status']);
            self::assertSame(['two-1'], json_decode($refused['body'], true)['violated-policies']);
        }
        self::assertSame(200, $application->ask('/r0?user=bob')['status']);
        $last = $application->ask('/r0?user=cyd');
        self::assertSame(200, $last['status']);
        self::assertStringContainsString('"two-2";r=0;', $last['headers']['ratelimit']);
        $own = $application->ask('/r0?user=dan');
        self::assertSame([429, 'my own'], [$own['status'], $own['body']]);
        self::assertGreaterThan(3500, (int) $own['headers']['retry-after']);
    }

    public function testNoLimitAndAnAnswerOfOnesOwnGoTheirWay(): void
    {
        $application = $this->application();
        self::assertArrayNotHasKey('ratelimit', $application->ask('/r1')['headers']);
        self::assertSame([451, 'not today'], [$application->ask('/r2')['status'], $application->ask('/r2')['body']]);
    }

    public function testAUserIsLimitedApartFromTheAddress(): void
    {
        $application = $this->application();
        $remaining = static fn (array $headers) => preg_match('/r=(\d+)/', $application->ask('/r3', $headers)['headers']['ratelimit'], $found) ? $found[1] : '';
        self::assertSame(['59', '58'], [$remaining([]), $remaining([])]);
        self::assertSame(['59', '58'], [$remaining(['X-User: 127.0.0.1']), $remaining(['X-User: 127.0.0.1'])]);
        self::assertSame('57', $remaining([]));
    }

    public function testAPolicyInTheRouteAndTheSettingsOfTheConfiguration(): void
    {
        $application = $this->application("'headers' => 'x-ratelimit', 'body' => 'json'");
        foreach (['2', '1', '0'] as $remaining) {
            self::assertSame($remaining, $application->ask('/r4')['headers']['x-ratelimit-remaining']);
        }
        $refused = $application->ask('/r4');
        self::assertSame('application/json', $refused['headers']['content-type']);
        self::assertStringContainsString('no-store', $refused['headers']['cache-control']);
        self::assertSame('Too many requests', json_decode($refused['body'], true)['error']);
        self::assertSame(500, $application->ask('/r5')['status'], 'a name that is nothing');
    }

    public function testOfTwoMiddlewaresTheInnerOnesHeadersStay(): void
    {
        self::assertSame('"inner";r=1;t=60', $this->application()->ask('/nested')['headers']['ratelimit']);
    }

    public function testNobodyPicksHisOwnAddress(): void
    {
        foreach (["'trusted_proxies' => []" => '0', "'trusted_proxies' => ['127.0.0.1']" => '2'] as $settings => $last) {
            $application = $this->application($settings);
            for ($sent = 0; $sent < 3; $sent += 1) {
                $answer = $application->ask('/r4', ["X-Forwarded-For: 192.0.2.$sent, 203.0.113.9"]);
                self::assertStringContainsString('r=' . (2 - $sent), $answer['headers']['ratelimit']);
            }
            self::assertSame(429, $application->ask('/r4', ['X-Forwarded-For: 192.0.2.9, 203.0.113.9'])['status']);
            $other = $application->ask('/r4', ['X-Forwarded-For: 203.0.113.10']);
            self::assertStringContainsString("r=$last", $other['headers']['ratelimit']);
        }
    }

    public function testAStoreThatIsAwayAnswersByTheRule(): void
    {
        $store = "'store' => 'redis://127.0.0.1:" . Port::free() . "'";
        $closed = $this->application("$store, 'on_error' => 'closed'")->ask('/r4');
        self::assertSame([503, '1'], [$closed['status'], $closed['headers']['retry-after']]);
        self::assertSame(200, $this->application("$store, 'on_error' => 'open'")->ask('/r4')['status']);
        self::assertSame(500, $this->application($store)->ask('/r4')['status']);
    }

    public function testTwoServersShareOneBudgetOnRedis(): void
    {
        $redis = new RedisServer();
        $settings = "'store' => '{$redis->dsn()}?timeout=5', 'hash_keys' => true, 'secret' => 'pepper'";
        [$one, $other] = [$this->application($settings), $this->application($settings)];
        self::assertSame([200, 200, 200, 429], array_map(
            static fn (Application $application) => $application->ask('/r4')['status'],
            [$one, $other, $one, $other],
        ));
    }

    private function application(string $settings = ''): Application
    {
        return (new Application('laravel', [
            'app/Providers/AppServiceProvider.php' => self::PROVIDER,
            'routes/web.php' => self::ROUTES,
            'config/ratelimit.php' => "<?php return [$settings];",
        ]))->serve();
    }
}
