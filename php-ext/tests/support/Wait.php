<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * For what another process does on its own and announces nowhere.
 */
final class Wait
{
    /**
     * Looks often until `$done` says so, for at most 30 seconds.
     */
    public static function until(callable $done, string $what): void
    {
        $started = microtime(true);
        while (!$done()) {
            if (microtime(true) - $started > 30) {
                throw new \RuntimeException("{$what} did not happen within 30 s");
            }
            usleep(2000);
        }
    }

    /**
     * A port that nobody listens on.
     */
    public static function freePort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        return (int) substr($name, strrpos($name, ':') + 1);
    }

    /**
     * A folder of a test's own, removed when PHP ends.
     */
    public static function folder(): string
    {
        $folder = sys_get_temp_dir() . '/ratelimit-' . bin2hex(random_bytes(6));
        mkdir($folder, 0700);
        register_shutdown_function(static function () use ($folder): void {
            array_map('unlink', array_filter(glob("{$folder}/*") ?: [], static fn ($file) => !is_dir($file)));
            rmdir($folder);
        });
        return $folder;
    }
}
