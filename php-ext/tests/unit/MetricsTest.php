<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\FpmServer;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

use function RateLimit\metrics;

/**
 * What limiters have done, in numbers, and how full stores are.
 */
final class MetricsTest extends TestCase
{
    public function testTheCountsAreWhatTheCallerSaw(): void
    {
        $redis = new RedisServer();
        $limiter = new Limiter(Policy::tokenBucket(3, 1.0, 3600.0, name: 'seen'), $redis->dsn());
        $seen = array_map(static fn () => $limiter->allow('a client'), range(1, 8));
        $limiter->peek('a client');
        foreach (['store', 'deny_cache'] as $source) {
            foreach (['allowed' => true, 'denied' => false] as $name => $allowed) {
                $expected = count(array_filter($seen, static fn ($it) => $it->source === $source && $it->allowed === $allowed));
                self::assertSame($expected, self::value(metrics(), "rate_limiter_{$name}_total{policy=\"seen\",source=\"{$source}\"}"));
            }
        }
        self::assertStringNotContainsString('a client', metrics());
    }

    public function testTheWorkersOfFpmCountTogether(): void
    {
        $fpm = new FpmServer(3);
        $script = __DIR__ . '/../fixtures/metrics.php';
        $workers = $fpm->getAtOnce($script, ['wait=300000', 'wait=300000', 'wait=300000']);
        self::assertCount(3, array_unique($workers), 'each has counted once');
        foreach (range(1, 7) as $_) {
            $fpm->get($script);
        }
        foreach (range(1, 3) as $_) {
            $text = $fpm->get($script, 'tell=1');
            self::assertSame(10, self::value($text, 'rate_limiter_allowed_total{policy="counted",source="store"}'));
        }
    }

    public function testAStoreSaysHowFullItIs(): void
    {
        foreach ([Store::memory(1000), Store::shared(Wait::folder() . '/limits', 1 << 20)] as $store) {
            $limiter = new Limiter(Policy::tokenBucket(5, 1.0, 3600.0), $store);
            foreach (range(1, 20) as $number) {
                $limiter->allow("key {$number}");
            }
            $info = $store->info();
            self::assertSame(['bytes', 'evicted', 'expired', 'slots', 'used'], self::sorted(array_keys($info)));
            self::assertSame([20, 0, 0], [$info['used'], $info['expired'], $info['evicted']]);
            self::assertGreaterThanOrEqual(1000, $info['slots']);
            self::assertSame('closed', $store->breaker());
        }
        self::assertNull(Store::open('redis://127.0.0.1:1')->info());
    }

    public function testASharedStoreIsOneForAllWhoNameItsFile(): void
    {
        $path = Wait::folder() . '/limits';
        $stores = [Store::shared($path, bytes: '1048576'), Store::open("shared:{$path}?size=1MiB"), "shared:{$path}?size=1MiB"];
        foreach ($stores as $at => $store) {
            $limiter = new Limiter(Policy::tokenBucket(5, 1.0, 3600.0), $store);
            self::assertSame(4 - $at, $limiter->allow('k')->remaining);
        }
        self::assertSame('shared', $stores[0]->kind());
        $this->expectExceptionMessage('bytes must be between 1 MiB');
        Store::shared($path, 5);
    }

    private static function value(string $text, string $beginning): int
    {
        return preg_match('/^' . preg_quote($beginning, '/') . ' (\d+)$/m', $text, $found) === 1 ? (int) $found[1] : 0;
    }

    private static function sorted(array $values): array
    {
        sort($values);
        return $values;
    }
}
