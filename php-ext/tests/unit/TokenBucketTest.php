<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;

/**
 * The class of redis.io's guide, from the extension instead of the guide's file.
 */
final class TokenBucketTest extends TestCase
{
    public function testTheGuidesSampleRunsWithTheExtensionInPlaceOfItsClass(): void
    {
        $server = new RedisServer();
        $run = Php::start(
            [...Php::command(), __DIR__ . '/../fixtures/guide.php'],
            ['REDIS_PORT' => (string) $server->port],
        );
        self::assertSame(
            "Request allowed. 2 tokens remaining.\nRequest allowed. 1 tokens remaining.\n"
            . "Request allowed. 0 tokens remaining.\nRequest denied. Rate limit exceeded.\n",
            $run->printed(),
        );
        // Asked through our own connection, and once per call; that the bucket is empty was known from the answer before.
        self::assertSame(3, $server->calls('evalsha'));
    }

    public function testTheDefaultsAreTheGuides(): void
    {
        $bucket = new \TokenBucket();
        self::assertSame(['allowed' => true, 'remaining' => 9.0], $bucket->allow('the defaults'));
    }

    public function testItSharesOneBudgetWithALimiterOfTheSameName(): void
    {
        $store = Store::memory();
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), $store);
        self::assertSame(9.0, (new \TokenBucket(10, 1.0, 1.0, $store))->allow('shared')['remaining']);
        self::assertSame(8, $limiter->allow('shared')->remaining);
        self::assertSame(7.0, (new \TokenBucket(redis: $store))->allow('shared')['remaining']);
    }

    public function testWithoutATokenItSaysSo(): void
    {
        $bucket = new \TokenBucket(1, 1.0, 3600.0, Store::memory());
        self::assertSame(['allowed' => true, 'remaining' => 0.0], $bucket->allow('k'));
        self::assertSame(['allowed' => false, 'remaining' => 0.0], $bucket->allow('k'));
    }

    public function testTheGlobalNameCanBeLeftToTheApplication(): void
    {
        $code = 'final class TokenBucket { function allow() { return "mine"; } } echo (new TokenBucket)->allow();';
        foreach (['0', 'Off', 'no', ''] as $off) {
            self::assertSame('mine', Php::run($code, ['ratelimit.global_token_bucket' => $off])->printed());
        }
        self::assertStringContainsString('Cannot declare class TokenBucket', Php::run($code)->errors);
        self::assertSame('1', Php::run('echo class_exists("TokenBucket");', ['ratelimit.global_token_bucket' => 'On'])->printed());
    }

    public function testItIsFinalAndCannotBeClonedOrSerialized(): void
    {
        $bucket = new \TokenBucket(redis: Store::memory());
        self::assertTrue((new \ReflectionClass($bucket))->isFinal());
        foreach ([static fn () => clone $bucket, static fn () => serialize($bucket)] as $copy) {
            try {
                $copy();
                self::fail('a limiter was copied');
            } catch (\Throwable $refusal) {
                self::assertStringContainsString('TokenBucket', $refusal->getMessage());
            }
        }
    }
}
