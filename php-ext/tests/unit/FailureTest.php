<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\FakeServer;
use RateLimit\Tests\RedisServer;
use RateLimit\Tests\Wait;

/**
 * The server forgets, restarts, stops or falls silent: a right answer or a typed error in time, and counted once.
 */
final class FailureTest extends TestCase
{
    /** Seconds: the time limit of the calls here, and what a machine under load may add. */
    private const LIMIT = 0.1;
    private const PATIENCE = 0.3;

    public function testAForgottenScriptIsSentAgainAndCountedOnce(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $remaining = static fn () => $limiter->allow('k')->remaining;
        self::assertSame([9, 8, 7], [$remaining(), $remaining(), $remaining()]);
        $server->connection()->script('flush');
        self::assertSame([6, 5, 4], [$remaining(), $remaining(), $remaining()]);
        self::assertSame(2, $server->calls('eval'), 'at first and after the flush');
        self::assertSame(0, $server->calls('script|load'));
    }

    public function testARestartedServerIsFoundAgainWithoutAnError(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $remaining = static fn () => $limiter->allow('k')->remaining;
        self::assertSame([9, 8, 7], [$remaining(), $remaining(), $remaining()]);
        $server->restart();
        self::assertSame([9, 8, 7], [$remaining(), $remaining(), $remaining()]);
    }

    public function testAServerThatIsGoneIsATypedErrorAtOnce(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        $limiter->allow('k');
        $server->stop();
        for ($call = 0; $call < 3; $call++) {
            self::assertContains($this->failureOf($limiter)->kind, ['refused', 'closed']);
        }
        $server->start();
        self::assertSame(9, $limiter->allow('k')->remaining);
    }

    public function testACallMayHaveAFailureRuleOfItsOwn(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        self::assertSame('store', $limiter->allow('k', onError: 'closed')->source, 'there is nothing to rule');
        $server->stop();
        self::assertContains($this->failureOf($limiter)->kind, ['refused', 'closed']);
        foreach (['open' => [true, 'fail_open'], 'closed' => [false, 'fail_closed'], 'local' => [true, 'local']] as $rule => $expected) {
            $decisions = [
                $limiter->allow('own-rule', onError: $rule),
                $limiter->peek('own-rule', onError: $rule),
                $limiter->reserve('own-rule', onError: $rule),
                ...$limiter->allowMany([['own-rule'], ['own-rule', 2]], onError: $rule),
            ];
            foreach ($decisions as $decision) {
                self::assertSame([...$expected, true], [$decision->allowed, $decision->source, $decision->degraded]);
            }
        }
        self::assertSame('fail_open', $limiter->wait('own-rule', onError: 'open')->source);
        $limiter->refund('own-rule', onError: 'open');
        $lenient = new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $server->dsn(), onError: 'open');
        self::assertSame('fail_open', $lenient->allow('k')->source);
        $this->expectException(StoreUnavailable::class);
        $lenient->allow('k', onError: 'throw');
    }

    public function testAFailureRuleThatIsNoneIsRefusedBeforeAnythingIsAsked(): void
    {
        $limiter = $this->limiter(Store::memory());
        try {
            $limiter->allow('k', onError: 'perhaps');
            self::fail('it is no rule');
        } catch (InvalidArgument $error) {
            self::assertSame('onError must be throw, open, closed or local, got "perhaps"', $error->getMessage());
        }
        self::assertSame(10, $limiter->peek('k')->remaining);
    }

    public function testAListenerThatNeverAnswersIsATimeoutWithinTheDeadline(): void
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $limiter = $this->limiter($this->dsn(stream_socket_get_name($socket, false)));
        for ($call = 0; $call < 3; $call++) {
            self::assertSame('timeout', $this->failureOf($limiter)->kind);
        }
    }

    public function testAServerThatFallsSilentIsATimeoutAndNotAskedTwice(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter(Store::redis($server->dsn(), self::LIMIT, self::LIMIT));
        self::assertSame(9, $limiter->allow('k')->remaining);
        $server->signal(SIGSTOP);
        try {
            self::assertSame('timeout', $this->failureOf($limiter)->kind);
        } finally {
            $server->signal(SIGCONT);
        }
        // The stopped server may or may not have carried out the call that timed out, but no more than that one.
        self::assertContains($limiter->allow('k')->remaining, [8, 7]);
    }

    public function testALateAnswerIsNotHandedToTheNextCaller(): void
    {
        $late = [0.3, self::reply(0, 0, 5_000_000, 9_000_000, 0)];
        $server = new FakeServer([$late, [0.0, self::reply(1, 7, 0, 3_000_000, 0)]]);
        $limiter = $this->limiter($this->dsn($server->address()));
        self::assertSame('timeout', $this->failureOf($limiter)->kind);
        for ($call = 0; $call < 3; $call++) {
            $decision = $limiter->allow('fast');
            self::assertSame([true, 7], [$decision->allowed, $decision->remaining]);
        }
    }

    /**
     * @dataProvider answers
     */
    public function testAnAnswerThatIsNoneIsATypedErrorAndNeverAllowed(string $answer, string $kind): void
    {
        $server = new FakeServer([[0.0, $answer]]);
        $failure = $this->failureOf($this->limiter($this->dsn($server->address())));
        self::assertSame($kind, $failure->kind);
        self::assertStringNotContainsString("\0", $failure->getMessage());
        foreach (['open' => true, 'closed' => false] as $rule => $allowed) {
            $decision = (new Limiter(Policy::tokenBucket(10, 1.0), $this->dsn($server->address()), $rule))->allow('k');
            self::assertSame([$allowed, 0, true], [$decision->allowed, $decision->remaining, $decision->degraded]);
        }
    }

    public static function answers(): iterable
    {
        yield 'garbage' => ["HTTP/1.1 400 Bad Request\r\n\r\n", 'protocol'];
        yield 'bytes that are no text' => ["\0\xff\r\n", 'protocol'];
        yield 'a status' => ["+OK\r\n", 'protocol'];
        yield 'an empty list' => ["*0\r\n", 'protocol'];
        yield 'nothing' => ["$-1\r\n", 'protocol'];
        yield 'an integer' => [":1\r\n", 'protocol'];
        yield 'a list of texts' => ["*2\r\n$1\r\n1\r\n$1\r\n7\r\n", 'protocol'];
        yield 'more left than the limit' => [self::reply(1, 11, 0, 0, 0), 'protocol'];
        yield 'a part of a unit left' => [self::reply(1, 0.5, 0, 0, 0), 'protocol'];
        yield 'less than nothing left' => [self::reply(1, -1, 0, 0, 0), 'protocol'];
        yield 'neither yes nor no' => [self::reply(2, 1, 0, 0, 0), 'protocol'];
        yield 'a refusal without a wait' => [self::reply(0, 0, 0, 1_000_000, 0), 'protocol'];
        yield 'no number' => [self::reply(1, NAN, 0, 0, 0), 'protocol'];
        yield 'a number too few' => [self::reply(1, 1, 0, 0), 'protocol'];
        yield 'three decisions' => [self::reply(1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0), 'protocol'];
        yield 'an error' => ["-ERR internal error\r\n", 'protocol'];
        yield 'another node' => ["-CROSSSLOT Keys in request don't hash to the same slot\r\n", 'protocol'];
        yield 'replica' => ["-READONLY You can't write against a read only replica.\r\n", 'readonly'];
        yield 'loading' => ["-LOADING Redis is loading the dataset in memory\r\n", 'loading'];
        yield 'busy' => ["-BUSY Redis is busy running a script.\r\n", 'busy'];
        yield 'no access' => ["-NOPERM this user has no permissions\r\n", 'noperm'];
        yield 'no login' => ["-NOAUTH Authentication required.\r\n", 'noperm'];
        yield 'no memory' => ["-OOM command not allowed when used memory > 'maxmemory'.\r\n", 'oom'];
        yield 'wrong type' => ["-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", 'wrongtype'];
        yield 'a NUL byte in an error' => ["-ERR a\0b\r\n", 'protocol'];
    }

    /**
     * @dataProvider policies
     */
    public function testAKeyThatHoldsSomethingElseNeverLetsMoreThroughThanTheLimit(Policy $policy): void
    {
        $server = new RedisServer();
        $redis = $server->connection();
        $limiter = new Limiter($policy, $server->dsn());
        $fill = [
            'string' => static fn (string $key) => $redis->set($key, 'hello'),
            'string of the right length' => static fn (string $key) => $redis->set($key, str_repeat("\xff", 40)),
            'emptystring' => static fn (string $key) => $redis->set($key, ''),
            'list' => static fn (string $key) => $redis->rPush($key, 'a'),
            'hash' => static fn (string $key) => $redis->hSet($key, 'field', 'abc'),
        ];
        foreach ($fill as $what => $put) {
            $limiter->allow($what);
            $keys = $redis->keys('rl:*');
            self::assertCount(1, $keys);
            $redis->del($keys[0]);
            $put($keys[0]);
            $passed = 0;
            for ($call = 0; $call < 15; $call++) {
                try {
                    $passed += (int) $limiter->allow($what)->allowed;
                } catch (StoreUnavailable $failure) {
                    self::assertSame('wrongtype', $failure->kind);
                }
            }
            self::assertLessThanOrEqual(10, $passed, $what);
            $redis->flushAll();
        }
    }

    /**
     * One policy of each algorithm: ten, and nothing comes back while a test lasts.
     */
    public static function policies(): array
    {
        return [
            'token bucket' => [Policy::tokenBucket(10, 1.0, 3600.0)],
            'leaky bucket' => [Policy::leakyBucket(10, 1 / 3600)],
            'GCRA' => [Policy::gcra(1, 3600.0, 10)],
            'fixed window' => [Policy::fixedWindow(10, 3600.0)],
            'sliding window log' => [Policy::slidingWindowLog(10, 3600.0)],
            'sliding window counter' => [Policy::slidingWindowCounter(10, 86400.0)],
        ];
    }

    public function testEveryAlgorithmKeepsItsOwnStateUnderOneNameAndKey(): void
    {
        $server = new RedisServer();
        for ($round = 1; $round <= 3; $round++) {
            foreach (self::policies() as $algorithm => [$policy]) {
                self::assertSame(10 - $round, (new Limiter($policy, $server->dsn()))->allow('u1')->remaining, $algorithm);
            }
        }
        foreach ($server->connection()->keys('*') as $key) {
            self::assertGreaterThan(0, $server->connection()->pttl($key), $key);
        }
    }

    /**
     * @dataProvider rules
     */
    public function testTheFailureRuleAnswersInTheStoresPlaceAndSaysSo(string $rule, bool $allowed, int $remaining, string $source): void
    {
        $limiter = new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), 'redis://127.0.0.1:' . Wait::freePort(), $rule, 5);
        $decision = $limiter->allow("rule {$rule}");
        self::assertSame([$allowed, $remaining, $source, true], [
            $decision->allowed, $decision->remaining, $decision->source, $decision->degraded,
        ]);
        if (!$allowed) {
            self::assertGreaterThan(0.0, $decision->retryAfter);
            self::assertArrayHasKey('Retry-After', $decision->headers());
        }
    }

    public static function rules(): iterable
    {
        yield ['open', true, 0, 'fail_open'];
        yield ['closed', false, 0, 'fail_closed'];
        // A fifth of ten, less the one that passed.
        yield ['local', true, 1, 'local'];
    }

    /**
     * @dataProvider rulesThatDecideAtOnce
     */
    public function testTheRuleKeepsTheDeadlineOnASilentServerAndEndsWhenItIsBack(string $rule, string $source): void
    {
        $server = new RedisServer();
        $store = Store::redis($server->dsn(), self::LIMIT, self::LIMIT);
        $limiter = new Limiter(Policy::tokenBucket(100, 1.0, 3600.0), $store, $rule);
        self::assertSame('store', $limiter->allow('k')->source);
        $server->signal(SIGSTOP);
        try {
            $this->assertAnswersInTime($limiter, $source);
        } finally {
            $server->signal(SIGCONT);
        }
        $limiter->allow('k');
        for ($call = 0; $call < 10; $call++) {
            self::assertSame('store', $limiter->allow('k')->source);
        }
    }

    /**
     * @dataProvider rulesThatDecideAtOnce
     */
    public function testTheRuleKeepsTheDeadlineWhereNobodyEverAnswers(string $rule, string $source): void
    {
        // One accepts and is silent; the other's backlog is full, so that it does not even accept.
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $context = stream_context_create(['socket' => ['backlog' => 0]]);
        $full = stream_socket_server('tcp://127.0.0.1:0', $_, $_, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
        $waiting = [];
        for ($client = 0; $client < 4; $client++) {
            $waiting[] = @stream_socket_client('tcp://' . stream_socket_get_name($full, false), $_, $_, 0.0, STREAM_CLIENT_ASYNC_CONNECT);
        }
        foreach ([$silent, $full] as $socket) {
            $dsn = $this->dsn(stream_socket_get_name($socket, false));
            $this->assertAnswersInTime(new Limiter(Policy::tokenBucket(100, 1.0, 3600.0), $dsn, $rule), $source);
        }
        array_map('fclose', array_filter([$silent, $full, ...$waiting]));
    }

    public static function rulesThatDecideAtOnce(): iterable
    {
        yield 'open' => ['open', 'fail_open'];
        yield 'closed' => ['closed', 'fail_closed'];
    }

    public function testAPrimaryThatIsAReplicaForAWhileIsUsedAgain(): void
    {
        $server = new RedisServer();
        $limiter = $this->limiter($server->dsn());
        self::assertSame(9, $limiter->allow('k')->remaining);
        $before = $server->connectionsReceived();
        $server->connection()->rawCommand('REPLICAOF', '127.0.0.1', (string) Wait::freePort());
        self::assertSame('readonly', $this->failureOf($limiter)->kind);
        $server->connection()->rawCommand('REPLICAOF', 'NO', 'ONE');
        self::assertSame([8, 7], [$limiter->allow('k')->remaining, $limiter->allow('k')->remaining]);
        self::assertSame(1, $server->connectionsReceived() - $before, 'the old connection is not used again');
    }

    private function assertAnswersInTime(Limiter $limiter, string $source): void
    {
        for ($call = 0; $call < 10; $call++) {
            $started = microtime(true);
            self::assertSame($source, $limiter->allow('k')->source);
            // One limit to connect, one to answer.
            self::assertLessThan(2 * self::LIMIT + self::PATIENCE, microtime(true) - $started);
        }
    }

    public function testLongWaitsAreNeitherCutNorNegative(): void
    {
        $server = new RedisServer();
        foreach ([25 * 86400.0, 2_500_000.001] as $interval) {
            $limiter = new Limiter(Policy::tokenBucket(1, 1.0, $interval), $server->dsn());
            self::assertTrue($limiter->allow("{$interval}")->allowed);
            $decision = $limiter->allow("{$interval}");
            self::assertFalse($decision->allowed);
            self::assertEqualsWithDelta($interval, $decision->retryAfter, 5.0);
            // The key may outlive its use by a minute.
            $left = $server->connection()->pttl("rl:tb:default:{{$interval}}") - $interval * 1e3;
            self::assertTrue(-10_000 < $left && $left < 70_000, "{$left} ms");
        }
    }

    /**
     * A script's reply: numbers as doubles in one text.
     */
    private static function reply(float ...$numbers): string
    {
        $bytes = pack('e*', ...$numbers);
        return '$' . strlen($bytes) . "\r\n{$bytes}\r\n";
    }

    private function limiter(mixed $store): Limiter
    {
        return new Limiter(Policy::tokenBucket(10, 1.0, 3600.0), $store);
    }

    private function dsn(string $address): string
    {
        return "redis://{$address}?timeout=" . self::LIMIT . '&connect_timeout=' . self::LIMIT;
    }

    private function failureOf(Limiter $limiter): StoreUnavailable
    {
        $started = microtime(true);
        try {
            $limiter->allow('k');
        } catch (StoreUnavailable $failure) {
            self::assertLessThan(self::LIMIT + self::PATIENCE, microtime(true) - $started);
            return $failure;
        }
        self::fail('it was decided');
    }
}
