<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/** A real `redis-server` of a test's own, on a free port; stopped when the object goes. */
final class RedisServer
{
    public readonly int $port;
    /** @var resource|null */
    private $process;

    public function __construct()
    {
        $this->port = Port::free();
        $this->process = proc_open(
            ['redis-server', '--port', (string) $this->port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]],
            $pipes,
        );
        $printed = '';
        while (($line = fgets($pipes[1])) !== false) {
            $printed .= $line;
            if (stripos($line, 'ready to accept connections') !== false) {
                return;
            }
        }
        throw new \RuntimeException("redis-server did not start:\n$printed");
    }

    public function dsn(): string
    {
        return "redis://127.0.0.1:{$this->port}";
    }

    /** Keys in its first database. */
    public function keys(): int
    {
        $connection = stream_socket_client("tcp://127.0.0.1:{$this->port}");
        fwrite($connection, "DBSIZE\r\n");

        return (int) substr((string) fgets($connection), 1);
    }

    public function stop(): void
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
            $this->process = null;
        }
    }

    public function __destruct()
    {
        $this->stop();
    }
}
