<?php

declare(strict_types=1);

namespace RateLimit\Tests;

use RateLimit\Store;

/**
 * Data providers: the stores in turn, empty, each from a function that opens it.
 */
final class Stores
{
    /**
     * What the function returns is anything that takes a store.
     */
    public static function each(): iterable
    {
        yield 'memory' => [static fn () => Store::memory(1000)];
        yield 'shared' => [static fn () => Store::shared(Wait::folder() . '/limits', 4 << 20)];
        yield 'Redis' => [static function (): string {
            static $server;
            $server ??= new RedisServer();
            $server->connection()->flushAll();
            return self::patient($server);
        }];
    }

    /**
     * What the function returns is a DSN, and what has to be held for as long as the store is used.
     */
    public static function ofManyProcesses(): iterable
    {
        yield 'shared' => [static fn () => ['shared:' . Wait::folder() . '/limits?size=4MiB&timeout=5', null]];
        yield 'Redis' => [static fn () => [self::patient($server = new RedisServer()), $server]];
    }

    private static function patient(RedisServer $server): string
    {
        return "{$server->dsn()}?timeout=5&connect_timeout=5";
    }
}
