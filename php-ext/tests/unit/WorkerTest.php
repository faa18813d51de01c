<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\FpmServer;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * What stays in a worker from one request to the next: connections and the memory store, and nothing of a request.
 */
final class WorkerTest extends TestCase
{
    private const SCRIPT = __DIR__ . '/../fixtures/request.php';

    public function testALaterFpmRequestCostsOneRoundTripAndNoConnection(): void
    {
        $redis = new RedisServer();
        $fpm = new FpmServer(2, ['ratelimit.store' => $redis->dsn()]);
        // Both workers are busy at once, so each has connected after this.
        $first = $fpm->getAtOnce(self::SCRIPT, ['wait=300000', 'wait=300000']);
        [$workers, $remaining] = [array_map('intval', $first), array_map(self::remaining(...), $first)];
        sort($remaining);
        self::assertSame([998, 999], $remaining);
        self::assertNotSame($workers[0], $workers[1]);

        $before = $this->counts($redis);
        for ($request = 1; $request <= 20; $request++) {
            $answer = $fpm->get(self::SCRIPT);
            self::assertContains((int) $answer, $workers);
            self::assertSame(998 - $request, self::remaining($answer));
        }
        $after = $this->counts($redis);
        self::assertSame(20, $after['evalsha'] - $before['evalsha']);
        self::assertSame($before['connections'], $after['connections']);
        // The test's own INFO commands aside, nothing else has been sent.
        self::assertSame(20, $after['commands'] - $before['commands']);
    }

    public function testAWorkersMemoryStoreOutlivesTheRequest(): void
    {
        $fpm = new FpmServer(1);
        foreach ([999, 998, 997] as $remaining) {
            self::assertSame($remaining, self::remaining($fpm->get(self::SCRIPT, 'store=memory:')));
        }
        self::assertSame(996, self::remaining($fpm->get(self::SCRIPT)), 'it is the default store');
    }

    public function testARequestThatRunsOutOfMemoryLeavesTheWorkerInOrder(): void
    {
        $redis = new RedisServer();
        $fpm = new FpmServer(1, ['memory_limit' => '8M', 'ratelimit.store' => $redis->dsn()]);
        $worker = (int) $fpm->get(self::SCRIPT);
        self::assertStringContainsString('Allowed memory size', $fpm->get(self::SCRIPT, 'exhaust=1'));
        $answer = $fpm->get(self::SCRIPT);
        self::assertSame([$worker, 998], [(int) $answer, self::remaining($answer)]);
    }

    public function testASettingOfOneRequestDoesNotReachTheNext(): void
    {
        $fpm = new FpmServer(1, ['ratelimit.store' => 'memory:']);
        $script = tempnam(sys_get_temp_dir(), 'ratelimit');
        file_put_contents($script, '<?php isset($_GET["set"]) && ini_set("ratelimit.store", "nonsense");
            try { echo (new TokenBucket)->allow("k")["allowed"] ? "allowed" : ""; } catch (RateLimit\Exception\InvalidStore) { echo "refused"; }');
        try {
            $answers = array_map(static fn (string $query) => $fpm->get($script, $query), ['', 'set=1', '']);
        } finally {
            unlink($script);
        }
        self::assertSame(['allowed', 'refused', 'allowed'], $answers);
    }

    public function testALimiterMadeWhilePreloadingDoesNotTieTheWorkersTogether(): void
    {
        $redis = new RedisServer();
        $preload = tempnam(sys_get_temp_dir(), 'ratelimit');
        file_put_contents($preload, '<?php (new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1000, 1.0, 3600.0), "' . $redis->dsn() . '"))->allow("preload");');
        chmod($preload, 0644);
        try {
            $settings = ['zend_extension' => 'opcache', 'opcache.enable' => '1', 'opcache.preload' => $preload, 'opcache.preload_user' => posix_getpwuid(posix_geteuid())['name']];
            $fpm = new FpmServer(2, $settings + ['ratelimit.store' => $redis->dsn()]);
            self::assertSame(1, $redis->calls('eval'), 'the preload script has asked once');
            for ($round = 0; $round < 20; $round++) {
                $answers = $fpm->getAtOnce(self::SCRIPT, ["wait=20000&key=a{$round}", "wait=20000&key=b{$round}"]);
                self::assertSame([999, 999], array_map(self::remaining(...), $answers), $fpm->log());
            }
        } finally {
            unlink($preload);
        }
    }

    public function testTheBuiltInServerKeepsConnectionsAndMemoryToo(): void
    {
        $redis = new RedisServer();
        $port = Wait::freePort();
        $log = ['file', '/dev/null', 'a'];
        $process = proc_open(
            [...Php::command(), '-S', "127.0.0.1:{$port}", self::SCRIPT],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );
        try {
            Wait::until(static fn () => @fsockopen('127.0.0.1', $port) !== false, 'the built-in server');
            $get = static fn (string $store) => self::remaining(
                file_get_contents("http://127.0.0.1:{$port}/?" . http_build_query(['store' => $store])),
            );
            self::assertSame([999, 998, 997], [$get('memory:'), $get('memory:'), $get('memory:')]);
            self::assertSame(999, $get($redis->dsn()));
            $before = $this->counts($redis);
            self::assertSame([998, 997], [$get($redis->dsn()), $get($redis->dsn())]);
            $after = $this->counts($redis);
            self::assertSame(2, $after['commands'] - $before['commands']);
            self::assertSame($before['connections'], $after['connections']);
        } finally {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
    }

    public function testASecondProcessCostsOneRoundTripPerDecision(): void
    {
        $redis = new RedisServer();
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(1000, 1.0, 3600.0), $argv[1]);
            for ($i = 0; $i < 10; $i++) { $last = $limiter->allow("k")->remaining; } echo $last;';
        $run = static fn () => Php::start([...Php::command(), '-r', $code, '--', $redis->dsn()])->printed();
        self::assertSame('990', $run());
        $before = $this->counts($redis);
        self::assertSame('980', $run());
        $after = $this->counts($redis);
        self::assertSame([10, 10, 1], [
            $after['evalsha'] - $before['evalsha'],
            $after['commands'] - $before['commands'],
            $after['connections'] - $before['connections'],
        ]);
    }

    public function testManyProcessesOnAColdKeySpendItExactlyOnce(): void
    {
        $redis = new RedisServer();
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(5, 1.0, 3600.0), $argv[1]);
            $pipes = []; $start = microtime(true) + 0.3;
            for ($i = 0; $i < 50; $i++) {
                $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                if (pcntl_fork() === 0) {
                    time_sleep_until($start);
                    $decision = $limiter->allow("cold");
                    fwrite($pair[1], $decision->allowed ? (string) $decision->remaining : "-");
                    exit;
                }
                fclose($pair[1]); $pipes[] = $pair[0];
            }
            $answers = array_map("stream_get_contents", $pipes);
            rsort($answers); echo implode("", $answers);';
        $printed = Php::start([...Php::command(), '-r', $code, '--', $redis->dsn() . '?timeout=5&connect_timeout=5'])->printed();
        self::assertSame('43210' . str_repeat('-', 45), $printed);
    }

    private static function remaining(string $answer): int
    {
        self::assertMatchesRegularExpression('/^\d+ \d+$/', $answer);
        return (int) explode(' ', $answer)[1];
    }

    /**
     * @return array{evalsha: int, commands: int, connections: int} the test's own questions not counted
     */
    private function counts(RedisServer $redis): array
    {
        $commands = 0;
        foreach ($redis->connection()->info('commandstats') as $name => $stats) {
            // Those that a script carries out are no round trips.
            $inside = ['cmdstat_info', 'cmdstat_get', 'cmdstat_set', 'cmdstat_time', 'cmdstat_del', 'cmdstat_hmget', 'cmdstat_hset', 'cmdstat_pexpire'];
            if (!in_array($name, $inside, true)) {
                $commands += (int) preg_replace('/^calls=(\d+).*/', '$1', $stats);
            }
        }
        return [
            'evalsha' => $redis->calls('evalsha'),
            'commands' => $commands,
            'connections' => $redis->connectionsReceived(),
        ];
    }
}
