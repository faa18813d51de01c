<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Php;
use RateLimit\Tests\RedisServer;

/**
 * Parent and children never read each other's replies.
 */
final class ForkTest extends TestCase
{
    /**
     * @dataProvider ways
     */
    public function testEveryProcessSeesItsOwnUnbrokenSequence(string $way): void
    {
        $server = new RedisServer();
        $dsn = $way === 'socket' ? "redis+unix://{$server->socket()}" : $server->dsn();
        $before = $server->connectionsReceived();
        $run = Php::start([...Php::command(), __DIR__ . '/../fixtures/fork.php', $dsn]);
        self::assertSame("child 0 done\nchild 0 done\nchild 0 done\nchild 0 done\nparent done\n", $run->printed());
        // One connection of the parent, one of each child, and nobody reconnects.
        self::assertSame(5, $server->connectionsReceived() - $before);
        self::assertSame(1 + 5 * 250 + 10, $server->calls('evalsha'));
    }

    public static function ways(): array
    {
        return ['TCP' => ['tcp'], 'socket' => ['socket']];
    }

    public function testAChildsMemoryStoreIsItsOwn(): void
    {
        $code = '$limiter = new RateLimit\Limiter(RateLimit\Policy::tokenBucket(10, 1.0, 3600.0), "memory:");
            $limiter->allow("k");
            if (($child = pcntl_fork()) === 0) { exit($limiter->allow("k", 5)->remaining); }
            pcntl_waitpid($child, $status);
            echo pcntl_wexitstatus($status), " ", $limiter->peek("k")->remaining;';
        self::assertSame('4 9', Php::run($code)->printed());
    }

    public function testAChildOfAManyPolicyLimiterStandsInForTheStoreWithMemoryOfItsOwn(): void
    {
        $code = '$policies = [RateLimit\Policy::fixedWindow(10, 3600.0, name: "a"), RateLimit\Policy::gcra(1, 3600.0, 20, "b")];
            $limiter = new RateLimit\Limiter($policies, "redis://127.0.0.1:1", "local");
            $limiter->allow("k");
            $children = [];
            for ($i = 0; $i < 4; $i++) {
                if (($children[] = pcntl_fork()) === 0) { exit($limiter->allow("k", 5)->remaining + ($limiter->peek("k")->source === "local" ? 0 : 100)); }
            }
            foreach ($children as $child) { pcntl_waitpid($child, $status); echo pcntl_wexitstatus($status), " "; }
            echo $limiter->peek("k")->remaining;';
        self::assertSame('4 4 4 4 9', Php::run($code)->printed());
    }
}
