<?php

declare(strict_types=1);

namespace RateLimit\Tests\Http;

use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\ServerRequest;
use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Http\ClientIp;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Psr15\RateLimitMiddleware;
use RateLimit\Store;
use RateLimit\Tests\Support\CountingHandler;

final class ClientIpTest extends TestCase
{
    /** @dataProvider requests */
    public function testTheKeyIsTheNearestAddressThatIsNoProxys(?string $expected, ?string $peer, array $headers): void
    {
        $server = $peer === null ? [] : ['REMOTE_ADDR' => $peer];
        $request = new ServerRequest('GET', '/', $headers, serverParams: $server);
        self::assertSame($expected, (new ClientIp(['10.0.0.0/8', '::1']))->resolve($request));
    }

    public static function requests(): iterable
    {
        yield 'nobody else' => ['192.0.2.1', '192.0.2.1', []];
        yield 'a stranger who says a lot' => ['192.0.2.1', '192.0.2.1', ['X-Forwarded-For' => '6.6.6.6', 'Forwarded' => 'for=6.6.6.6']];
        yield 'a proxy' => ['203.0.113.9', '10.0.0.1', ['X-Forwarded-For' => '6.6.6.6, 203.0.113.9']];
        yield 'two lines' => ['203.0.113.9', '10.0.0.1', ['X-Forwarded-For' => ['6.6.6.6, 203.0.113.9', '10.0.0.2']]];
        yield 'a proxy by RFC 7239' => ['203.0.113.9', '::1', ['Forwarded' => 'for=6.6.6.6, FOR="203.0.113.9:80";proto=https']];
        yield 'IPv6' => ['2001:db8:1:2::/64', '10.0.0.1', ['Forwarded' => 'for="[2001:db8:1:2:3::4]:4711"']];
        yield 'IPv4 in IPv6' => ['192.0.2.1', '::ffff:192.0.2.1', []];
        yield 'a zone' => ['fe80::/64', 'fe80::1%eth0', []];
        yield 'a name for nobody' => ['10.0.0.1', '10.0.0.1', ['Forwarded' => 'for=6.6.6.6, for=_hidden']];
        yield 'unknown' => ['10.0.0.1', '10.0.0.1', ['X-Forwarded-For' => '6.6.6.6, unknown']];
        yield 'two headers that disagree' => ['10.0.0.1', '10.0.0.1', ['Forwarded' => 'for=6.6.6.6', 'X-Forwarded-For' => '203.0.113.9']];
        yield 'no address' => [null, null, ['X-Forwarded-For' => '6.6.6.6']];
        yield 'an empty address' => [null, '', ['X-Forwarded-For' => '6.6.6.6']];
    }

    /** @dataProvider spoofs */
    public function testANewForwardedAddressPerRequestGivesNoNewBudget(array $trusted, string $header, string $line): void
    {
        $limiter = new Limiter(Policy::parse('5/m'), Store::memory(), clock: new ManualClock());
        $middleware = new RateLimitMiddleware($limiter, new ClientIp($trusted), new Psr17Factory());
        $handler = new CountingHandler();
        for ($sent = 0; $sent < 50; $sent += 1) {
            $headers = [$header => str_replace('RANDOM', "192.0.2.$sent", $line)];
            $request = new ServerRequest('GET', '/', $headers, serverParams: ['REMOTE_ADDR' => '198.51.100.7']);
            $status = $middleware->process($request, $handler)->getStatusCode();
            self::assertSame($sent < 5 ? 200 : 429, $status);
        }
        self::assertSame(5, $handler->calls);
    }

    public static function spoofs(): iterable
    {
        $proxy = ['198.51.100.7', '10.0.0.2'];
        foreach ([[], $proxy] as $trusted) {
            $tail = $trusted === [] ? 'nobody is trusted' : 'behind proxies';
            foreach (['203.0.113.9', 'not-an-ip', '203.0.113.9, 10.0.0.2', ''] as $end) {
                yield "X-Forwarded-For ending in '$end', $tail" => [$trusted, 'X-Forwarded-For', "RANDOM, $end"];
            }
            foreach (['for=203.0.113.9', 'for="[2001:db8::1]:80"', 'for=unknown', 'for=_x, for=10.0.0.2', 'proto=https', 'for="'] as $end) {
                yield "Forwarded ending in '$end', $tail" => [$trusted, 'Forwarded', "for=RANDOM, $end"];
            }
            yield "Forwarded with an open quote, $tail" => [$trusted, 'Forwarded', 'for="RANDOM, for=203.0.113.9'];
        }
    }

    public function testAMistakeIsToldWhenItIsMade(): void
    {
        $this->expectExceptionObject(new InvalidArgument('ipv6Prefix must be between 1 and 128, got 0'));
        new ClientIp(ipv6Prefix: 0);
    }
}
