<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/** A port of this machine. */
final class Port
{
    /** One that nobody listens on at the moment. */
    public static function free(): int
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($listener, false);
        fclose($listener);

        return (int) substr($name, strrpos($name, ':') + 1);
    }

    /** Whether somebody listens on it. */
    public static function answers(int $port): bool
    {
        $connection = @stream_socket_client("tcp://127.0.0.1:$port", timeout: 1);
        if ($connection === false) {
            return false;
        }
        fclose($connection);

        return true;
    }
}
