<?php

declare(strict_types=1);

namespace RateLimit\Tests\Http;

use Nyholm\Psr7\ServerRequest;
use PHPUnit\Framework\TestCase;
use Psr\Http\Message\ServerRequestInterface;
use RateLimit\Http\ClientIp;
use RateLimit\Http\Key;

final class KeyTest extends TestCase
{
    public function testAUserIsAnIdOrAnObjectThatHasOne(): void
    {
        $key = static fn (mixed $user) => Key::user()->resolve(self::request()->withAttribute('user', $user));
        self::assertSame('42', $key(42));
        self::assertSame('ann', $key('ann'));
        self::assertSame('7', $key(new class () {
            public function getAuthIdentifier(): int
            {
                return 7;
            }
        }));
        foreach ([null, false, true, [], new \stdClass()] as $nobody) {
            self::assertNull($key($nobody));
        }
        self::assertNull(Key::user()->resolve(self::request()));
        self::assertSame('acme', Key::tenant()->resolve(self::request()->withAttribute('tenant', 'acme')));
    }

    public function testWhatTheCallerWroteIsHashed(): void
    {
        $token = 's3cr3t-token-value';
        $request = self::request(['Authorization' => "Bearer $token", 'X-API-Key' => $token, 'X-Client' => $token])
            ->withCookieParams(['session' => $token, 'list' => [$token]]);
        $plain = hash('sha256', $token);
        self::assertSame($plain, Key::apiKey()->resolve($request));
        self::assertSame($plain, Key::apiKey('Authorization')->resolve($request));
        self::assertSame($plain, Key::header('x-client')->resolve($request));
        self::assertSame($plain, Key::cookie('session')->resolve($request));
        self::assertSame(hash_hmac('sha256', $token, 'pepper'), Key::apiKey(secret: 'pepper')->resolve($request));
        self::assertNull(Key::cookie('list')->resolve($request));
        $empty = self::request(['Authorization' => 'Bearer', 'X-API-Key' => '']);
        foreach ([Key::apiKey(), Key::apiKey('Authorization'), Key::header('X-None'), Key::cookie('none')] as $key) {
            self::assertNull($key->resolve($empty));
        }
    }

    public function testARouteIsTheMethodAndThePathOrWhatTheRouterSays(): void
    {
        self::assertSame('GET /reports', Key::route()->resolve(self::request()));
        self::assertSame('reports', Key::route('route')->resolve(self::request()->withAttribute('route', 'reports')));
    }

    public function testNoTwoCombinationsGiveTheSameKey(): void
    {
        $all = static fn (string ...$parts) => Key::all(...array_map(
            static fn (string $part) => static fn () => $part,
            $parts,
        ))->resolve(self::request());
        self::assertSame('a|b', $all('a', 'b'));
        self::assertNotSame($all('a|b', 'c'), $all('a', 'b|c'));
        self::assertNotSame($all('a%7Cb'), $all('a|b'));
        self::assertNull($all('a', ''));
        self::assertNull($all());
        self::assertSame('192.0.2.1|GET /reports', Key::all(new ClientIp(), Key::route())->resolve(self::request()));
    }

    public function testTheFirstThatIsKnownIsNeverTakenForAnother(): void
    {
        $key = Key::first(Key::user(), new ClientIp());
        self::assertSame('1:192.0.2.1', $key->resolve(self::request()));
        self::assertSame('0:192.0.2.1', $key->resolve(self::request()->withAttribute('user', '192.0.2.1')));
        self::assertNull(Key::first(static fn () => '', static fn () => null)->resolve(self::request()));
    }

    /** @param array<string, string> $headers */
    private static function request(array $headers = []): ServerRequestInterface
    {
        return new ServerRequest('GET', '/reports?page=2', $headers, serverParams: ['REMOTE_ADDR' => '192.0.2.1']);
    }
}
