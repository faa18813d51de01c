<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use Predis\Client;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Tests\Certificates;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * Encrypted connections, with and without a certificate of the client's own.
 */
final class TlsTest extends TestCase
{
    private static ?Certificates $certificates = null;
    /** Asks clients for a certificate. */
    private static ?RedisServer $strict = null;
    private static int $strictPort;
    private static ?RedisServer $easy = null;
    private static int $easyPort;

    public static function setUpBeforeClass(): void
    {
        self::$certificates = new Certificates();
        [self::$strictPort, self::$easyPort] = [Wait::freePort(), Wait::freePort()];
        self::$strict = new RedisServer(self::$certificates->serverOptions(self::$strictPort, true));
        self::$easy = new RedisServer([...self::$certificates->serverOptions(self::$easyPort, false), '--requirepass', 'pass+word']);
    }

    public static function tearDownAfterClass(): void
    {
        self::$certificates = self::$strict = self::$easy = null;
    }

    public function testADsnNamesAuthorityAndCertificate(): void
    {
        $limiter = $this->limiter(self::strictDsn());
        self::assertSame([9, 8, 7], [$limiter->allow('dsn')->remaining, ...array_column($limiter->allowMany([['dsn'], ['dsn']]), 'remaining')]);
        self::assertSame(6, $limiter->allow('dsn')->remaining, 'on the same connection');
    }

    public function testWithoutTheRightCertificatesNobodyIsLetIn(): void
    {
        [$ca, $other] = [self::$certificates->path('ca.pem'), new Certificates()];
        $port = self::$strictPort;
        foreach ([
            'no certificate of the client' => "rediss://localhost:{$port}?ca={$ca}",
            'another authority' => "rediss://:pass%2Bword@localhost:" . self::$easyPort . "?ca={$other->path('ca.pem')}",
            'another name' => "rediss://:pass%2Bword@localhost:" . self::$easyPort . "?ca={$ca}&server_name=cache.example",
            'the authorities of the system' => "rediss://:pass%2Bword@localhost:" . self::$easyPort,
            'no encryption' => "redis://localhost:{$port}",
        ] as $what => $dsn) {
            try {
                $this->limiter($dsn)->allow('k');
                self::fail("let in: {$what}");
            } catch (StoreUnavailable $failure) {
                self::assertContains($failure->kind, ['refused', 'closed', 'protocol'], "{$what}: {$failure->getMessage()}");
                self::assertStringNotContainsString('pass+word', $failure->getMessage());
            }
        }
        self::assertSame(9, $this->limiter('rediss://:pass%2Bword@localhost:' . self::$easyPort . '?insecure=1')->allow('any')->remaining);
    }

    /**
     * @dataProvider predisClients
     */
    public function testAPredisClientSaysWhichCertificatesItUses(callable $client): void
    {
        $client = $client();
        self::assertSame('PONG', (string) $client->ping(), 'the client itself is let in');
        self::assertSame(9, $this->limiter($client)->allow("predis {$this->dataName()}")->remaining);
    }

    public static function predisClients(): iterable
    {
        $path = static fn (string $name) => self::$certificates->path($name);
        yield 'array' => [static fn () => new Client([
            'scheme' => 'tls', 'host' => 'localhost', 'port' => self::$strictPort,
            'ssl' => ['cafile' => $path('ca.pem'), 'local_cert' => $path('client.pem'), 'local_pk' => $path('client.key')],
        ])];
        yield 'URL' => [static fn () => new Client(
            'rediss://:pass+word@127.0.0.1:' . self::$easyPort . '/2?' . http_build_query(['ssl' => ['cafile' => $path('ca.pem')]]),
        )];
        yield 'certificate and key in one file' => [static function () use ($path): Client {
            file_put_contents($path('both.pem'), file_get_contents($path('client.pem')) . file_get_contents($path('client.key')));
            return new Client(['scheme' => 'tls', 'host' => 'localhost', 'port' => self::$strictPort], ['parameters' => [
                'ssl' => ['cafile' => $path('ca.pem'), 'local_cert' => $path('both.pem')],
            ]]);
        }];
        yield 'unverified' => [static fn () => new Client([
            'scheme' => 'rediss', 'host' => '127.0.0.1', 'port' => self::$easyPort, 'password' => 'pass+word',
            'ssl' => ['verify_peer' => false, 'verify_peer_name' => false],
        ])];
        yield 'another name' => [static fn () => new Client([
            'scheme' => 'tls', 'host' => '127.0.0.1', 'port' => self::$easyPort, 'password' => 'pass+word',
            'ssl' => ['cafile' => $path('ca.pem'), 'peer_name' => 'localhost'],
        ])];
    }

    /**
     * @dataProvider optionsThatCannotBeKept
     */
    public function testAnOptionThatCannotBeKeptIsToldAndNotDropped(array $options, string $message): void
    {
        $this->expectException(InvalidStore::class);
        $this->expectExceptionMessage($message);
        $this->limiter(new Client(['scheme' => 'tls', 'host' => 'cache.example', 'ssl' => $options]));
    }

    public static function optionsThatCannotBeKept(): iterable
    {
        yield [['capath' => '/etc/ssl/certs'], "the client's SSL option capath cannot be kept"];
        yield [['local_cert' => 'a.pem', 'passphrase' => 'hunter2'], "the client's SSL option passphrase cannot be kept"];
        yield [['peer_fingerprint' => str_repeat('a', 40)], "the client's SSL option peer_fingerprint cannot be kept"];
        yield [['allow_self_signed' => true], "the client's SSL option allow_self_signed cannot be kept"];
        yield [['verify_peer_name' => false], "the client's SSL option verify_peer_name=false cannot be kept"];
    }

    public function testSentinelsAndServersAreEncryptedAlike(): void
    {
        $client = new Client(
            ['tls://127.0.0.1:1', 'tls://127.0.0.1:2'],
            ['replication' => 'sentinel', 'service' => 'mymaster', 'parameters' => ['scheme' => 'tcp']],
        );
        $this->expectException(InvalidStore::class);
        $this->expectExceptionMessage('must encrypt the connections to sentinels and servers, or neither');
        $this->limiter($client);
    }

    public function testARedisObjectIsCheckedByPhpsOwnAuthorities(): void
    {
        $code = '$redis = new Redis(); $redis->connect("tls://localhost", (int) $argv[1]); $redis->auth("pass+word"); $redis->select(4);
            $limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(10, 1.0, 3600.0), $redis);
            echo $limiter->allow("object")->remaining, $limiter->allow("object")->remaining;';
        $command = [
            PHP_BINARY, '-d', 'extension=' . Php::extension(), '-d', 'openssl.cafile=' . self::$certificates->path('ca.pem'),
            '-r', $code, '--', (string) self::$easyPort,
        ];
        self::assertSame('98', Php::start($command)->printed());
    }

    public function testAChildDoesNotEndTheConnectionOfItsParent(): void
    {
        $run = Php::start([...Php::command(), __DIR__ . '/../fixtures/fork.php', self::strictDsn()]);
        self::assertSame("child 0 done\nchild 0 done\nchild 0 done\nchild 0 done\nparent done\n", $run->printed());
    }

    private static function strictDsn(): string
    {
        $path = static fn (string $name) => self::$certificates->path($name);
        return 'rediss://localhost:' . self::$strictPort . "?ca={$path('ca.pem')}&cert={$path('client.pem')}&key={$path('client.key')}";
    }

    private function limiter(mixed $store): Limiter
    {
        return new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $store);
    }
}
