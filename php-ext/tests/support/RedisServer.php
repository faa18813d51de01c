<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * A real `redis-server` of a test's own, on a free port and a socket; stopped when nobody holds it any more.
 */
final class RedisServer
{
    public readonly int $port;

    private readonly string $folder;

    /** @var null|resource */
    private $process = null;

    private ?\Redis $connection = null;

    /**
     * @param list<string> $options as on its command line
     * @param null|int $port a free one without it
     */
    public function __construct(private readonly array $options = [], ?int $port = null)
    {
        $this->port = $port ?? Wait::freePort();
        $this->folder = Wait::folder();
        $this->start();
    }

    public function __destruct()
    {
        $this->stop();
    }

    public function dsn(): string
    {
        return "redis://127.0.0.1:{$this->port}";
    }

    public function socket(): string
    {
        return "{$this->folder}/redis.sock";
    }

    public function start(): void
    {
        $log = ['file', "{$this->folder}/log", 'a'];
        $this->process = proc_open(
            [
                'redis-server', '--port', (string) $this->port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
                '--unixsocket', $this->socket(), '--dir', $this->folder, ...$this->options,
            ],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );
        Wait::until(function (): bool {
            if (!proc_get_status($this->process)['running']) {
                throw new \RuntimeException('redis-server: ' . file_get_contents("{$this->folder}/log"));
            }
            // The socket is opened after the port.
            return @stream_socket_client("unix://{$this->socket()}") !== false;
        }, 'a Redis server');
    }

    public function stop(): void
    {
        if ($this->process !== null) {
            $this->connection = null;
            $this->signal(SIGKILL);
            proc_close($this->process);
            $this->process = null;
            @unlink($this->socket());
        }
    }

    public function restart(): void
    {
        $this->stop();
        $this->start();
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /**
     * A connection for the test itself, to look behind the library's back.
     */
    public function connection(): \Redis
    {
        if ($this->connection === null) {
            $this->connection = new \Redis();
            $this->connection->connect('127.0.0.1', $this->port, 2.0);
            $password = array_search('--requirepass', $this->options, true);
            if ($password !== false) {
                $this->connection->auth($this->options[$password + 1]);
            }
        }
        return $this->connection;
    }

    /**
     * How often a command has been carried out, as the server counts.
     */
    public function calls(string $command): int
    {
        $stats = $this->connection()->info('commandstats')["cmdstat_{$command}"] ?? '';
        return preg_match('/calls=(\d+)/', $stats, $found) ? (int) $found[1] : 0;
    }

    /**
     * How often the server has read from any connection: what was sent in one piece counts once.
     */
    public function reads(): int
    {
        return (int) $this->connection()->info('stats')['total_reads_processed'];
    }

    /**
     * How often anybody has connected.
     */
    public function connectionsReceived(): int
    {
        return (int) $this->connection()->info('stats')['total_connections_received'];
    }
}
