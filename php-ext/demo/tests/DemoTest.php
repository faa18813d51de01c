<?php

declare(strict_types=1);

namespace RateLimit\Tests\Demo;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Support\Port;
use RateLimit\Tests\Support\RedisServer;

require_once __DIR__ . '/DemoServer.php';

/** The routes of the demo, over HTTP. Refills are an hour apart wherever a number must not move by itself. */
final class DemoTest extends TestCase
{
    private const THREE_PER_HOUR = ['capacity' => 3, 'refill_rate' => 3, 'refill_interval' => 3600];

    private static ?DemoServer $shared = null;

    private ?DemoServer $demo = null;

    protected function setUp(): void
    {
        $this->demo = self::$shared ??= new DemoServer();
    }

    protected function tearDown(): void
    {
        // PHPUnit keeps its test objects to the end; the server is to stop before.
        $this->demo = null;
    }

    public static function tearDownAfterClass(): void
    {
        self::$shared = null;
    }

    public function testARequestIsAllowedUntilTheBucketIsEmpty(): void
    {
        $demo = new DemoServer();
        $demo->configure(self::THREE_PER_HOUR);
        $answers = [];
        for ($sent = 0; $sent < 4; $sent += 1) {
            $answer = $demo->ask('POST', '/test');
            self::assertSame(200, $answer['status']);
            self::assertSame('application/json', $answer['headers']['content-type']);
            $answers[] = [$answer['json']['allowed'], $answer['json']['remaining']];
        }
        self::assertSame([[true, 2], [true, 1], [true, 0], [false, 0]], $answers);
        self::assertSame(3, $answer['json']['limit']);
        self::assertEqualsWithDelta(3600, $answer['json']['retry_after'], 10);
        self::assertSame('0', $answer['json']['headers']['X-RateLimit-Remaining']);
        self::assertArrayHasKey('Retry-After', $answer['json']['headers']);
        self::assertEquals(self::THREE_PER_HOUR, $answer['json']['config']);
    }

    public function testItStartsWithTenTokensAndOneMoreEachSecond(): void
    {
        $answer = (new DemoServer())->ask('POST', '/test')['json'];
        self::assertTrue($answer['allowed']);
        self::assertSame(9, $answer['remaining']);
        self::assertEquals(['capacity' => 10, 'refill_rate' => 1, 'refill_interval' => 1], $answer['config']);
    }

    /** @dataProvider bodies */
    public function testTheConfigurationSurvivesBetweenRequests(string $type, string $body): void
    {
        $answer = $this->demo->ask('POST', '/config', $body, ['Content-Type' => $type]);
        $expected = ['capacity' => 7, 'refill_rate' => 0.5, 'refill_interval' => 3600];

        self::assertSame(200, $answer['status'], $answer['body']);
        self::assertTrue($answer['json']['success']);
        self::assertEquals($expected, $answer['json']['config']);
        self::assertSame(7, $answer['json']['limit']);
        self::assertEquals($expected, $this->demo->ask('POST', '/test')['json']['config']);
        self::assertStringContainsString('data-capacity="7"', $this->demo->ask('GET', '/')['body']);
    }

    public static function bodies(): iterable
    {
        yield 'JSON' => ['application/json', '{"capacity":7,"refill_rate":0.5,"refill_interval":3600}'];
        yield 'JSON in the spelling of PHP' => [
            'application/json; charset=utf-8',
            '{"capacity":"7","refillRate":0.5,"refillInterval":3.6e3}',
        ];
        yield 'a form' => ['application/x-www-form-urlencoded', 'capacity=7&refill_rate=.5&refill_interval=3600'];
        yield 'a form in parts' => [
            'multipart/form-data; boundary=x',
            "--x\r\nContent-Disposition: form-data; name=\"capacity\"\r\n\r\n7\r\n"
            . "--x\r\nContent-Disposition: form-data; name=\"refill_rate\"\r\n\r\n0.5\r\n"
            . "--x\r\nContent-Disposition: form-data; name=\"refill_interval\"\r\n\r\n3600\r\n--x--\r\n",
        ];
    }

    public function testSettingsThatAreNotSentStayAsTheyAre(): void
    {
        $this->demo->configure(self::THREE_PER_HOUR);
        $answer = $this->demo->configure(['capacity' => 5]);
        self::assertEquals(['capacity' => 5] + self::THREE_PER_HOUR, $answer['json']['config']);
    }

    /** @dataProvider wrongNumbers */
    public function testAWrongNumberIsNamedAndChangesNothing(mixed $settings, string $sentence): void
    {
        $this->demo->configure(self::THREE_PER_HOUR);
        $answer = $this->demo->configure($settings);

        self::assertSame(422, $answer['status'], $answer['body']);
        self::assertFalse($answer['json']['success']);
        self::assertStringContainsString($sentence, $answer['json']['error']);
        self::assertEquals(self::THREE_PER_HOUR, $answer['json']['config']);
        self::assertEquals(self::THREE_PER_HOUR, $this->demo->ask('POST', '/test')['json']['config']);
    }

    public static function wrongNumbers(): iterable
    {
        yield 'capacity 0' => [['capacity' => 0], 'capacity must be between 1 and 2147483647, got 0'];
        yield 'capacity -1 as text' => [['capacity' => '-1'], 'capacity must be between 1 and 2147483647, got -1'];
        yield 'capacity 2^40' => [['capacity' => 2 ** 40], 'capacity must be between 1 and 2147483647, got 1099511627776'];
        yield 'half a token of capacity' => [['capacity' => 1.5], 'capacity'];
        yield 'capacity too big for an integer' => [['capacity' => '1e30'], 'capacity'];
        yield 'rate 0' => [['refill_rate' => 0], 'refillRate'];
        yield 'rate without end' => [['refill_rate' => '1e400'], 'refillRate'];
        yield 'interval -5' => [['refill_interval' => -5], 'refillInterval'];
        yield 'words' => [['capacity' => 'ten'], 'capacity must be a number, got "ten"'];
        yield 'nothing' => [['refill_rate' => ''], 'refill_rate must be a number, got ""'];
        yield 'null' => [['capacity' => null], 'capacity must be a number, got null'];
        yield 'a list' => [['capacity' => [1]], 'capacity must be a number, got array'];
        yield 'a good one beside a wrong one' => [['capacity' => 9, 'refill_rate' => -1], 'refillRate'];
        yield 'a setting that is none' => [['capactiy' => 9], 'there is no setting "capactiy"'];
    }

    public function testABodyThatSaysNothingIsRefused(): void
    {
        foreach (['{"capacity":', '[1]', '7', 'null'] as $body) {
            $answer = $this->demo->ask('POST', '/config', $body, ['Content-Type' => 'application/json']);
            self::assertSame(400, $answer['status'], $body);
        }
    }

    public function testALongBodyIsRefused(): void
    {
        $body = json_encode(['capacity' => 5, 'x' => str_repeat('x', 5000)]);
        $answer = $this->demo->ask('POST', '/config', $body, ['Content-Type' => 'application/json']);
        self::assertSame(413, $answer['status']);
    }

    public function testLoweringTheCapacityTakesTokensAndRaisingItGivesNone(): void
    {
        $demo = new DemoServer();
        $demo->configure(['capacity' => 8] + self::THREE_PER_HOUR);
        self::assertSame(7, $demo->ask('POST', '/test')['json']['remaining']);
        self::assertSame(2, $demo->configure(['capacity' => 2])['json']['remaining']);
        self::assertSame(1, $demo->ask('POST', '/test')['json']['remaining']);
        self::assertSame(1, $demo->configure(['capacity' => 100])['json']['remaining']);
    }

    public function testThePageAndItsFilesAreServed(): void
    {
        $page = $this->demo->ask('GET', '/');
        self::assertSame(200, $page['status']);
        self::assertSame('text/html; charset=utf-8', $page['headers']['content-type']);
        self::assertStringContainsString("default-src 'none'", $page['headers']['content-security-policy']);
        self::assertSame('nosniff', $page['headers']['x-content-type-options']);
        self::assertStringNotContainsString('Warning', $page['body']);

        preg_match_all('/(?:href|src)="(\/[^"]+)"/', $page['body'], $links);
        self::assertSame(['/style.css', '/demo.js'], $links[1]);
        foreach (['/style.css' => 'text/css', '/demo.js' => 'text/javascript'] as $path => $type) {
            $file = $this->demo->ask('GET', $path);
            self::assertSame(200, $file['status']);
            self::assertSame("$type; charset=utf-8", $file['headers']['content-type']);
            self::assertSame(file_get_contents(dirname(__DIR__) . $path), $file['body']);
        }
    }

    /** @dataProvider otherPaths */
    public function testNothingElseIsServed(string $path): void
    {
        $answer = $this->demo->ask('GET', $path);
        self::assertSame(404, $answer['status']);
        self::assertStringNotContainsString('<?php', $answer['body']);
        self::assertStringNotContainsString('root:', $answer['body']);
    }

    public static function otherPaths(): iterable
    {
        $paths = [
            '/router.php', '/Settings.php', '/page.php', '/tests/DemoTest.php', '/../php/composer.json',
            '/../../../../../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', '/style.css/../Settings.php', '//style.css',
            '/style.css%00.php', '/demo.js/', '/favicon.ico',
        ];
        foreach ($paths as $path) {
            yield $path => [$path];
        }
    }

    public function testTheWrongMethodIsRefused(): void
    {
        foreach ([['GET', '/test', 'POST'], ['PUT', '/config', 'POST'], ['POST', '/', 'GET']] as [$method, $path, $right]) {
            $answer = $this->demo->ask($method, $path);
            self::assertSame(405, $answer['status']);
            self::assertSame($right, $answer['headers']['allow']);
        }
    }

    public function testPagesOfOtherSitesCanChangeNothing(): void
    {
        $this->demo->configure(self::THREE_PER_HOUR);
        $headers = ['Sec-Fetch-Site' => 'cross-site', 'Content-Type' => 'application/x-www-form-urlencoded'];
        self::assertSame(403, $this->demo->ask('POST', '/config', 'capacity=9', $headers)['status']);
        self::assertEquals(self::THREE_PER_HOUR, $this->demo->ask('POST', '/test')['json']['config']);
    }

    public function testWhatIsShownIsEscaped(): void
    {
        $demo = new DemoServer(['REDIS_HOST' => '"><script>alert(1)</script>', 'REDIS_PORT' => '1']);
        $page = $demo->ask('GET', '/')['body'];
        self::assertStringNotContainsString('<script>alert', $page);
    }

    public function testRedisKeepsTheStateWhereItIsNamed(): void
    {
        $redis = new RedisServer();
        $environment = ['REDIS_HOST' => '127.0.0.1', 'REDIS_PORT' => (string) $redis->port];
        $demo = new DemoServer($environment);
        self::assertStringContainsString("Redis at 127.0.0.1:{$redis->port}", $demo->ask('GET', '/')['body']);
        $demo->configure(self::THREE_PER_HOUR);
        self::assertSame(0, $redis->keys());
        self::assertSame(2, $demo->ask('POST', '/test')['json']['remaining']);
        self::assertSame(1, $redis->keys());

        // Another server process, the same Redis: one budget.
        unset($demo);
        $demo = new DemoServer($environment);
        $demo->configure(self::THREE_PER_HOUR);
        self::assertSame(1, $demo->ask('POST', '/test')['json']['remaining']);

        $redis->stop();
        $answer = $demo->ask('POST', '/test');
        self::assertSame(503, $answer['status']);
        self::assertNotSame('', $answer['json']['error']);
        self::assertArrayNotHasKey('allowed', $answer['json']);
        self::assertSame(503, $demo->configure(['capacity' => 5])['status']);
        self::assertStringContainsString('data-capacity="3"', $demo->ask('GET', '/')['body']);
    }

    public function testWithoutRedisNoServerIsNeeded(): void
    {
        self::assertStringContainsString('memory of this server process', $this->demo->ask('GET', '/')['body']);
        $demo = new DemoServer(['REDIS_HOST' => '', 'REDIS_PORT' => '']);
        self::assertSame(200, $demo->ask('POST', '/test')['status']);
    }

    public function testARedisThatIsAwayIsSaid(): void
    {
        $demo = new DemoServer(['REDIS_PORT' => (string) Port::free()]);
        $answer = $demo->ask('POST', '/test');
        self::assertSame(503, $answer['status']);
        self::assertSame('refused', $answer['json']['kind']);
        $page = $demo->ask('GET', '/');
        self::assertSame(200, $page['status']);
        self::assertStringContainsString('<p id="problem" role="alert">', $page['body']);
    }
}
