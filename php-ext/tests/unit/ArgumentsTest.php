<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidCost;
use RateLimit\Exception\InvalidPolicy;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\RateLimitException;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\RedisServer;

/**
 * What is taken as what, and what is refused before any store is asked.
 */
final class ArgumentsTest extends TestCase
{
    private const LARGEST = 2147483647;

    private static ?RedisServer $server = null;

    public static function setUpBeforeClass(): void
    {
        self::$server = new RedisServer();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server = null;
    }

    /**
     * @dataProvider keys
     */
    public function testAKeyIsWhatPhpWouldMakeAStringOf(mixed $key, string $same): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory());
        self::assertSame(9, $limiter->allow($key)->remaining);
        self::assertSame(8, $limiter->allow($same)->remaining);
        self::assertSame(8, $limiter->peek($key)->remaining);
        $limiter->reset($key);
        self::assertSame(10, $limiter->peek($same)->remaining);
    }

    public static function keys(): iterable
    {
        yield 'int' => [42, '42'];
        yield 'negative int' => [-1, '-1'];
        yield 'float' => [1.5, '1.5'];
        yield 'true' => [true, '1'];
        yield 'Stringable' => [new class () {
            public function __toString(): string
            {
                return 'from __toString';
            }
        }, 'from __toString'];
        yield 'empty' => ['', ''];
        yield 'binary' => ["\xff\0\xfe", "\xff\0\xfe"];
        yield 'long' => [str_repeat('k', 1 << 20), str_repeat('k', 1 << 20)];
    }

    public function testDifferentBytesAreDifferentKeys(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory());
        foreach (['', "\0", "\0\0", "\xff", 'a b', 'a}b', '{', '#', ' ', '0'] as $key) {
            self::assertSame(9, $limiter->allow($key)->remaining, bin2hex($key));
        }
    }

    public function testAReferenceIsTakenAsItsValueAndLeftAsItIs(): void
    {
        $key = 42;
        $reference = &$key;
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory());
        $limiter->allow($reference);
        self::assertSame(42, $key);
    }

    /**
     * @dataProvider noKeys
     */
    public function testWhatIsNoKeyIsATypeError(mixed $key, string $type): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory());
        foreach (['allow', 'peek', 'reserve', 'wait', 'refund', 'reset'] as $verb) {
            try {
                $limiter->$verb($key);
                self::fail("{$verb}() took it");
            } catch (\TypeError $error) {
                self::assertSame("key must be of type string|array, {$type} given", $error->getMessage());
            }
        }
        self::assertSame(10, $limiter->peek('k')->remaining);
    }

    public static function noKeys(): iterable
    {
        yield 'null' => [null, 'null'];
        yield 'object' => [new \stdClass(), 'stdClass'];
        yield 'array with null' => [['default' => null], 'array with null'];
        yield 'array with an array' => [['default' => ['k']], 'array with array'];
        yield 'array with an object' => [['default' => new \stdClass()], 'array with stdClass'];
    }

    public function testAnExceptionInToStringReachesTheCaller(): void
    {
        $key = new class () {
            public function __toString(): string
            {
                throw new \DomainException('no name');
            }
        };
        $this->expectExceptionObject(new \DomainException('no name'));
        (new Limiter(Policy::tokenBucket(10, 1.0), Store::memory()))->allow($key);
    }

    public function testNumbersConvertAsPhpConvertsThem(): void
    {
        self::assertSame(10, Policy::tokenBucket('10', '1.5', ' 2 ')->limit);
        self::assertSame(10, Policy::tokenBucket(10.0, 1, 2)->limit);
        self::assertSame(10, Policy::tokenBucket('1e1', true)->limit);
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), Store::memory());
        self::assertSame(8, $limiter->allow('k', '2')->remaining);
        self::assertSame(6, $limiter->allow('k', 2.0)->remaining);
        self::assertSame(5, $limiter->allow('k', true)->remaining);
        self::assertFalse((new Limiter(Policy::tokenBucket(1, 1.0), Store::memory(), share: '1'))->peek('k')->degraded);
    }

    /**
     * @dataProvider tokenBuckets
     */
    public function testATokenBucketOutOfRangeIsRefusedByName(array $arguments, string $begins, string $ends): void
    {
        $arguments += ['capacity' => 10, 'refillRate' => 1.0];
        foreach ([false, true] as $continuous) {
            try {
                Policy::tokenBucket(...$arguments, continuous: $continuous);
                self::fail('it was taken');
            } catch (InvalidPolicy $refusal) {
                self::assertStringStartsWith("{$begins} must be ", $refusal->getMessage());
                self::assertStringEndsWith(", got {$ends}", $refusal->getMessage());
                self::assertInstanceOf(\InvalidArgumentException::class, $refusal);
                self::assertInstanceOf(RateLimitException::class, $refusal);
            }
        }
        if (!isset($arguments['name'])) {
            $this->expectException(InvalidPolicy::class);
            new \TokenBucket(...$arguments, redis: self::$server->dsn());
        }
    }

    public static function tokenBuckets(): iterable
    {
        foreach ([0, -1, self::LARGEST + 1, 2 ** 40, PHP_INT_MIN] as $number) {
            yield "capacity {$number}" => [['capacity' => $number], 'capacity', (string) $number];
        }
        foreach (['1.5' => 1.5, 'NAN' => NAN, 'INF' => INF, '-INF' => -INF, '1000000000000000000000' => 1e21] as $shown => $number) {
            yield "capacity {$shown}" => [['capacity' => $number], 'capacity', (string) $shown];
        }
        foreach (['refillRate', 'refillInterval'] as $argument) {
            foreach (['0' => 0, '-1' => -1.0, 'NaN' => NAN, 'inf' => INF, '-inf' => -INF] as $shown => $number) {
                yield "{$argument} {$shown}" => [[$argument => $number], $argument, (string) $shown];
            }
        }
        yield 'empty name' => [['name' => ''], 'name', '""'];
        yield 'binary name' => [['name' => "\xff"], 'name', "\"\u{fffd}\""];
        yield 'long name' => [['name' => str_repeat('n', 101)], 'name', '101 bytes'];
    }

    /**
     * @dataProvider costs
     */
    public function testACostOutOfRangeIsRefusedBeforeRedisIsAsked(mixed $cost, string $shown): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), self::$server->dsn());
        $key = $this->getName();
        $limiter->allow($key);
        $asked = self::$server->calls('evalsha') + self::$server->calls('eval');
        foreach (['allow', 'peek', 'reserve', 'wait', 'refund'] as $verb) {
            try {
                $limiter->$verb($key, $cost);
                self::fail("{$verb}() took it");
            } catch (InvalidCost $refusal) {
                $message = 'cost must be an integer between 1 and ' . self::LARGEST . ", got {$shown}";
                self::assertSame($message, $refusal->getMessage());
                self::assertInstanceOf(\InvalidArgumentException::class, $refusal);
            }
        }
        self::assertSame($asked, self::$server->calls('evalsha') + self::$server->calls('eval'));
        self::assertSame(9, $limiter->peek($key)->remaining);
    }

    public static function costs(): iterable
    {
        foreach ([0, -1, 2 ** 31, 2 ** 40, PHP_INT_MAX, PHP_INT_MIN] as $cost) {
            yield "{$cost}" => [$cost, (string) $cost];
        }
        yield '1.5' => [1.5, '1.5'];
        yield '"1.5"' => ['1.5', '1.5'];
        yield 'false' => [false, '0'];
        yield 'NAN' => [NAN, 'NAN'];
        yield 'INF' => [INF, 'INF'];
    }

    public function testACostAboveTheLimitIsDeniedForEverAndTakesNothing(): void
    {
        foreach ([Store::memory(), self::$server->dsn()] as $store) {
            $limiter = new Limiter(Policy::tokenBucket(5, 1.0, 3600.0), $store);
            $decision = $limiter->allow('oversize', 6);
            self::assertFalse($decision->allowed);
            self::assertInfinite($decision->retryAfter);
            self::assertArrayNotHasKey('Retry-After', $decision->headers());
            self::assertTrue($limiter->allow('oversize', 5)->allowed);
        }
    }

    public function testATypeThatFitsNowhereIsATypeErrorThatNamesTheArgument(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(5, 1.0), Store::memory());
        $calls = [
            'cost must be of type int, array given' => static fn () => $limiter->allow('k', []),
            'cost must be of type int, string given' => static fn () => $limiter->allow('k', 'two'),
            'token must be of type ?string, array given' => static fn () => $limiter->allow('k', 1, []),
            'maxWait must be of type float, string given' => static fn () => $limiter->wait('k', 1, 'long'),
            'burst must be of type int, string given' => static fn () => Policy::gcra(1, 1.0, 'big'),
            'aligned must be of type bool, array given' => static fn () => Policy::fixedWindow(1, 1.0, []),
            'text must be of type string, null given' => static fn () => Policy::parse(null),
            'capacity must be of type int, stdClass given' => static fn () => Policy::tokenBucket(new \stdClass(), 1.0),
            'refillRate must be of type float, string given' => static fn () => Policy::tokenBucket(1, 'fast'),
            'name must be of type string, array given' => static fn () => Policy::tokenBucket(1, 1.0, name: []),
            'onError must be of type string, array given' => static fn () => new Limiter(Policy::tokenBucket(1, 1.0), onError: []),
            'hashKeys must be of type bool, array given' => static fn () => new Limiter(Policy::tokenBucket(1, 1.0), hashKeys: []),
            'clock must be of type ?RateLimit\Clock, stdClass given' => static fn () => new Limiter(Policy::tokenBucket(1, 1.0), clock: new \stdClass()),
            'policies must be of type RateLimit\Policy|array, string given' => static fn () => new Limiter('10/s'),
            'policies must be of type RateLimit\Policy|array, array with int given' => static fn () => new Limiter([1]),
        ];
        foreach ($calls as $message => $call) {
            try {
                $call();
                self::fail("no TypeError: {$message}");
            } catch (\TypeError $error) {
                self::assertSame($message, $error->getMessage());
            }
        }
    }

    public function testTheLimitersOptionsAreChecked(): void
    {
        $policy = Policy::tokenBucket(5, 1.0);
        $calls = [
            'onError must be throw, open, closed or local, got "shrug"' => ['onError' => 'shrug'],
            'share must be between 1 and 4294967295, got 0' => ['share' => 0],
            'share must be between 1 and 4294967295, got -1' => ['share' => -1],
            'share must be between 1 and 4294967295, got 4294967296' => ['share' => 2 ** 32],
            'share must be between 1 and 4294967295, got 1.5' => ['share' => 1.5],
        ];
        foreach ($calls as $message => $options) {
            try {
                new Limiter($policy, ...$options);
                self::fail("taken: {$message}");
            } catch (InvalidArgument $refusal) {
                self::assertSame($message, $refusal->getMessage());
            }
        }
    }

    /**
     * @dataProvider noStores
     */
    public function testWhatNamesNoStoreIsRefusedWithTheKindsThatDo(mixed $value, string $got): void
    {
        $kinds = 'must be null, a DSN, a RateLimit\Store, a connected Redis, a RedisCluster, a RedisSentinel or a Predis\ClientInterface';
        foreach (['store' => static fn () => new Limiter(Policy::tokenBucket(1, 1.0), $value), 'redis' => static fn () => new \TokenBucket(redis: $value)] as $argument => $make) {
            try {
                $make();
                self::fail('it was taken');
            } catch (InvalidStore $refusal) {
                self::assertSame("{$argument} {$kinds}, got {$got}", $refusal->getMessage());
            }
        }
    }

    public static function noStores(): iterable
    {
        yield 'int' => [6379, 'int'];
        yield 'bool' => [false, 'bool'];
        yield 'array' => [['host' => 'localhost'], 'array'];
        yield 'object' => [new \stdClass(), 'stdClass'];
        yield 'another client' => [new \ArrayObject(), 'ArrayObject'];
    }

    public function testTooFewAndTooManyArgumentsAreCounted(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(1, 1.0), Store::memory());
        foreach ([[], ['k', 1, null, null, 1]] as $arguments) {
            try {
                $limiter->allow(...$arguments);
                self::fail('it was taken');
            } catch (\ArgumentCountError $error) {
                self::assertStringContainsString('RateLimit\Limiter::allow()', $error->getMessage());
            }
        }
    }

    public function testArgumentsMayBeNamedAndLeftOut(): void
    {
        $limiter = new Limiter(store: Store::memory(), policies: Policy::tokenBucket(refillRate: 1, capacity: 5, name: 'named'), secret: 's', hashKeys: true);
        $decision = $limiter->allow(cost: 2, key: 'k');
        self::assertSame([3, 'named'], [$decision->remaining, $decision->policy]);
        self::assertSame(2, $limiter->reserve('k', token: 'once')->remaining);
        self::assertSame(2, $limiter->allow(token: 'once', key: 'k')->remaining);
    }
}
