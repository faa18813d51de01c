<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Decision;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Php;

final class DecisionTest extends TestCase
{
    private const MEMBERS = [
        'allowed' => true, 'limit' => 5, 'remaining' => 3, 'retryAfter' => 0.0, 'resetAfter' => 2.0, 'delay' => 0.0,
        'policy' => 'api', 'source' => 'store', 'degraded' => false,
    ];

    public function testEveryWayToReadItGivesTheSame(): void
    {
        $decision = $this->decision();
        foreach (self::MEMBERS as $name => $value) {
            self::assertSame($value, $decision->$name);
            self::assertSame($value, $decision[$name]);
            self::assertTrue(isset($decision->$name, $decision[$name]));
        }
        self::assertSame(self::MEMBERS, get_object_vars($decision));
        self::assertSame(self::MEMBERS, (array) $decision);
        self::assertSame(self::MEMBERS, iterator_to_array((static fn () => yield from (array) $decision)()));
        self::assertSame(json_encode(self::MEMBERS), json_encode($decision));
        self::assertStringContainsString('["remaining"]=>', print_r($decision, true) . self::dumped($decision));
        self::assertFalse(isset($decision['nothing']) || isset($decision->nothing));
        self::assertTrue(empty($decision->degraded));
    }

    public function testARefusalSaysHowLongItLasts(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(1, 1.0, 59.999986), Store::memory(), clock: $clock = new ManualClock());
        $limiter->allow('k');
        $clock->advance(0.0000005);
        $decision = $limiter->allow('k');
        self::assertSame([false, 0], [$decision->allowed, $decision->remaining]);
        self::assertEqualsWithDelta(59.999986, $decision->retryAfter, 2e-6);
        self::assertSame('60', $decision->headers('none')['Retry-After']);
    }

    public function testWhatNeverPassesIsInfiniteAndNullInJson(): void
    {
        $decision = $this->decision(6);
        self::assertInfinite($decision->retryAfter);
        self::assertNull(json_decode(json_encode($decision), true)['retryAfter']);
    }

    public function testItCannotBeChanged(): void
    {
        $decision = $this->decision();
        $changes = [
            'Cannot modify readonly property RateLimit\Decision::$allowed' => [
                static fn () => $decision->allowed = false,
                static fn () => $decision['allowed'] = false,
                static function () use ($decision): void {
                    unset($decision['allowed']);
                },
            ],
            'Cannot unset property RateLimit\Decision::$allowed' => [static function () use ($decision): void {
                unset($decision->allowed);
            }],
            'Cannot modify readonly property RateLimit\Decision::$remaining' => [
                static fn () => $decision->remaining++,
                static fn () => $decision->remaining -= 1,
                static fn () => (new \ReflectionProperty($decision, 'remaining'))->setValue($decision, 7),
            ],
            'Cannot create dynamic property RateLimit\Decision::$extra' => [static fn () => $decision->extra = 1],
        ];
        foreach ($changes as $message => $ways) {
            foreach ($ways as $change) {
                try {
                    $change();
                    self::fail("no error: {$message}");
                } catch (\Error $error) {
                    self::assertSame($message, $error->getMessage());
                }
            }
        }
        self::assertSame(self::MEMBERS, (array) $decision);
    }

    public function testItCannotBeMadeByUsers(): void
    {
        $ways = [
            static fn () => new Decision(),
            static fn () => (new \ReflectionClass(Decision::class))->newInstance(),
            static fn () => (new \ReflectionClass(Decision::class))->newInstanceWithoutConstructor(),
            static fn () => unserialize('O:18:"RateLimit\Decision":0:{}'),
        ];
        foreach ($ways as $way) {
            try {
                $way();
                self::fail('a decision was made');
            } catch (\Throwable $refusal) {
                self::assertStringContainsString('RateLimit\Decision', $refusal->getMessage());
            }
        }
    }

    public function testACopyIsEqualAndIndependent(): void
    {
        $decision = $this->decision();
        $copy = clone $decision;
        self::assertEquals($decision, $copy);
        self::assertNotSame($decision, $copy);
        unset($decision);
        self::assertSame(self::MEMBERS, (array) $copy);
        self::assertNotEquals($copy, $this->decision(1));
    }

    public function testAMisspelledMemberIsToldAndNotReadAsRefused(): void
    {
        $decision = $this->decision();
        foreach (['Allowed', 'allow', '', 0, null] as $name) {
            try {
                $decision[$name];
                self::fail('it was read');
            } catch (InvalidArgument $refusal) {
                self::assertStringStartsWith('offset must be one of allowed, limit, remaining, ', $refusal->getMessage());
            }
        }
    }

    public function testEachGivesOnePerPolicy(): void
    {
        $decision = $this->decision();
        self::assertEquals([$decision], $decision->each());
    }

    /**
     * @dataProvider styles
     */
    public function testHeadersOfEveryFamily(string $style, array $allowed, array $denied): void
    {
        $limiter = new Limiter(Policy::tokenBucket(2, 1.0, 1.5, name: 'a"b'), Store::memory(), clock: new ManualClock());
        self::assertSame($allowed, $limiter->allow('k')->headers($style));
        $limiter->allow('k');
        self::assertSame($denied, $limiter->allow('k')->headers($style));
        if ($style === 'ietf') {
            self::assertSame($denied, $limiter->allow('k')->headers());
        }
    }

    public static function styles(): iterable
    {
        $retry = ['Retry-After' => '2'];
        yield [
            'ietf',
            ['RateLimit-Policy' => '"a\"b";q=2;w=3', 'RateLimit' => '"a\"b";r=1;t=2'],
            ['RateLimit-Policy' => '"a\"b";q=2;w=3', 'RateLimit' => '"a\"b";r=0;t=2'] + $retry,
        ];
        yield [
            'draft-7',
            ['RateLimit-Policy' => '2;w=3', 'RateLimit' => 'limit=2, remaining=1, reset=2'],
            ['RateLimit-Policy' => '2;w=3', 'RateLimit' => 'limit=2, remaining=0, reset=2'] + $retry,
        ];
        foreach (['draft-3' => 'RateLimit-', 'x-ratelimit' => 'X-RateLimit-'] as $style => $prefix) {
            $names = ["{$prefix}Limit", "{$prefix}Remaining", "{$prefix}Reset"];
            yield [$style, array_combine($names, ['2', '1', '2']), array_combine($names, ['2', '0', '2']) + $retry];
        }
        yield ['none', [], $retry];
    }

    public function testAnUnknownFamilyIsRefused(): void
    {
        $this->expectExceptionObject(new InvalidArgument('style must be ietf, draft-7, draft-3, x-ratelimit, x-ratelimit-epoch or none, got "xml"'));
        $this->decision()->headers('xml');
    }

    public function testCompiledCodeReadsTheSame(): void
    {
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(100000, 1.0, 3600.0), "memory:");
            function left(RateLimit\Decision $decision): int { return $decision->allowed ? $decision->remaining : -1; }
            for ($i = 1; $i <= 50000; $i++) {
                $decision = $limiter->allow("k");
                if (left($decision) !== 100000 - $i || $decision["remaining"] !== 100000 - $i) { exit("wrong at {$i}"); }
            }
            echo opcache_get_status()["jit"]["on"] ? "same" : "not compiled";';
        $file = tempnam(sys_get_temp_dir(), 'ratelimit');
        file_put_contents($file, "<?php {$code}");
        try {
            foreach (['tracing', 'function'] as $jit) {
                $settings = [
                    'zend_extension' => 'opcache', 'opcache.enable_cli' => '1', 'opcache.jit' => $jit,
                    'opcache.jit_buffer_size' => '32M', 'opcache.file_update_protection' => '0',
                ];
                self::assertSame('same', Php::start([...Php::command($settings), $file])->printed(), $jit);
            }
        } finally {
            unlink($file);
        }
    }

    private function decision(int $cost = 2): Decision
    {
        $limiter = new Limiter(Policy::tokenBucket(5, 1.0, name: 'api'), Store::memory(), clock: new ManualClock());
        return $limiter->allow('k', $cost);
    }

    private static function dumped(mixed $value): string
    {
        ob_start();
        var_dump($value);
        return ob_get_clean();
    }
}
