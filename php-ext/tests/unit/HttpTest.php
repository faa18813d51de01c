<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\ClientIp;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;

/**
 * What a decision looks like in a response, and who a request comes from.
 */
final class HttpTest extends TestCase
{
    private const VECTORS = __DIR__ . '/../../../tests/vectors/headers/emit';

    /**
     * @dataProvider vectors
     */
    public function testADecisionIsWrittenAsTheVectorsSay(array $case): void
    {
        $clock = new ManualClock(1_700_000_000.0);
        $policies = array_map(static fn (array $it) => Policy::parse($it['text'], $it['name']), $case['policies']);
        $limiter = new Limiter($policies, Store::memory(), clock: $clock);
        $atUs = 0;
        foreach ($case['steps'] as $step) {
            $clock->advance(($step['at_us'] - $atUs) / 1e6);
            $atUs = $step['at_us'];
            $decision = $limiter->{$step['verb']}('key', $step['cost']);
        }
        foreach ($case['headers'] as $style => $expected) {
            self::assertSame($expected, $decision->headers($style), $style);
            $refusal = $decision->refusal($style);
            if ($case['problem'] === null) {
                self::assertNull($refusal);
                continue;
            }
            $expected += ['Content-Type' => 'application/problem+json', 'Cache-Control' => 'no-store'];
            self::assertSame($expected, $refusal['headers'], $style);
            self::assertSame($case['problem'], json_decode($refusal['body'], true));
            self::assertSame($case['problem']['status'], $refusal['status']);
        }
        self::assertSame($case['problem'], $decision->problem());
    }

    public static function vectors(): iterable
    {
        foreach (glob(self::VECTORS . '/*.json') as $file) {
            foreach (json_decode(file_get_contents($file), true, flags: JSON_THROW_ON_ERROR)['cases'] as $case) {
                yield $case['name'] => [$case];
            }
        }
    }

    public function testAPartitionKeyAndAUnitAreWritten(): void
    {
        $decision = (new Limiter(Policy::parse('9/m'), Store::memory(), clock: new ManualClock()))->allow('key');
        $headers = $decision->headers(partitionKey: "\0\xff", quotaUnit: 'content-bytes');
        self::assertSame('"default";q=9;qu="content-bytes";w=60;pk=:AP8=:', $headers['RateLimit-Policy']);
        self::assertSame('"default";r=8;t=60;pk=:AP8=:', $headers['RateLimit']);
        $this->expectExceptionObject(new InvalidArgument('quotaUnit must be printable ASCII characters, got "ü"'));
        $decision->headers(quotaUnit: 'ü');
    }

    public function testAnEpochIsNotBeforeTheRealResetWithoutAClockOfOnesOwn(): void
    {
        $before = microtime(true);
        $decision = (new Limiter(Policy::parse('1/m'), Store::memory()))->allow('key');
        $reset = (int) $decision->headers('x-ratelimit-epoch')['X-RateLimit-Reset'];
        self::assertGreaterThanOrEqual($before + 60, $reset);
        self::assertLessThanOrEqual(microtime(true) + 61, $reset);
    }

    public function testARefusalComesWithTheBodyAndTheTypeThatAreAskedFor(): void
    {
        $limiter = new Limiter(Policy::parse('1/m'), Store::memory(), clock: new ManualClock());
        self::assertNull($limiter->allow('key')->problem());
        $decision = $limiter->allow('key');
        $refusal = $decision->refusal('none', 'json');
        $headers = ['Retry-After' => '60', 'Content-Type' => 'application/json', 'Cache-Control' => 'no-store'];
        $body = '{"error":"Too many requests","retry_after":60}';
        self::assertSame(['status' => 429, 'headers' => $headers, 'body' => $body], $refusal);
        self::assertSame('', $decision->refusal(body: 'none')['body']);
        self::assertStringEndsWith('#abnormal-usage-detected', $decision->problem('abnormal-usage-detected')['type']);
        self::assertSame(503, $decision->refusal(type: 'temporary-reduced-capacity')['status']);
        self::assertStringContainsString("\0", ClientIp::sharedKey());
        self::assertSame(403, ClientIp::unidentified()['status']);
        self::assertSame('{"error":"Forbidden"}', ClientIp::unidentified('json')['body']);
        foreach (['problem' => ['x'], 'refusal' => ['ietf', 'x']] as $method => $arguments) {
            try {
                $decision->{$method}(...$arguments);
                self::fail('it was taken');
            } catch (InvalidArgument $error) {
                self::assertStringEndsWith(', got "x"', $error->getMessage());
            }
        }
    }

    public function testOnlyATrustedPeerSaysWhoItHadBeforeIt(): void
    {
        $clientIp = new ClientIp(['10.0.0.0/8']);
        $lines = ['6.6.6.6', '203.0.113.9, 10.0.0.2'];
        self::assertSame('203.0.113.9', $clientIp->resolve('10.0.0.1', xForwardedFor: $lines));
        self::assertSame('203.0.113.9', $clientIp->resolve('10.0.0.1', xForwardedFor: implode(', ', $lines)));
        self::assertSame('2001:db8:1:2::/64', $clientIp->resolve('10.0.0.1', 'for=x, for="[2001:db8:1:2::3]:80"'));
        self::assertSame('10.0.0.1', $clientIp->resolve('10.0.0.1', '', "6.6.6.6, \xff"));
        self::assertSame('198.51.100.7', $clientIp->resolve('198.51.100.7', 'for=6.6.6.6', $lines));
        foreach ([null, '', 'unix:'] as $peer) {
            self::assertNull($clientIp->resolve($peer, 'for=6.6.6.6'));
        }
        self::assertNull($clientIp->resolve());
        self::assertSame('192.0.2.1', (new ClientIp())->resolve('192.0.2.1', 'for=6.6.6.6'));
        $socket = new ClientIp(['unix'], 128, 'x-forwarded-for');
        self::assertSame('2001:db8::1', $socket->resolve('', ['for=6.6.6.6'], ['2001:db8::1']));
    }

    /**
     * @dataProvider mistakes
     */
    public function testAWrongProxyPrefixOrHeaderIsRefused(string $message, mixed ...$arguments): void
    {
        $this->expectExceptionMessage($message);
        new ClientIp(...$arguments);
    }

    public static function mistakes(): iterable
    {
        $trusted = 'trustedProxies must be addresses, networks such as 10.0.0.0/8, or unix, got "10.0.0.0/33"';
        yield 'a network' => [$trusted, ['10.0.0.0/33']];
        yield 'no text' => ['trustedProxies must be of type array of strings, array with int given', [1]];
        yield 'a prefix' => ['ipv6Prefix must be between 1 and 128, got 0', [], 0];
        yield 'half a bit' => ['ipv6Prefix must be between 1 and 128, got 63.5', [], 63.5];
        yield 'a header' => ['header must be auto, forwarded or x-forwarded-for, got "via"', [], 64, 'via'];
    }

    public function testLinesThatAreNoTextAreATypeError(): void
    {
        $this->expectException(\TypeError::class);
        $this->expectExceptionMessage('forwarded must be of type string|array, array with int given');
        (new ClientIp())->resolve('192.0.2.1', [1]);
    }
}
