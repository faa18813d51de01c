<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * A real primary with a replica, watched by three real sentinels.
 */
final class Sentinels
{
    /** What the sentinels call the primary. */
    public const MASTER = 'mymaster';

    /** @var list<RedisServer> the primary of the beginning, and its replica */
    public readonly array $servers;

    /** @var list<int> */
    public readonly array $ports;

    private readonly string $folder;

    /** @var list<resource> */
    private array $processes = [];

    public function __construct(private readonly ?string $password = null, int $count = 3)
    {
        $options = $password === null ? [] : ['--requirepass', $password, '--masterauth', $password];
        $options = ['--repl-diskless-sync-delay', '0', ...$options];
        $this->servers = [new RedisServer($options), new RedisServer($options)];
        [$primary, $replica] = $this->servers;
        $replica->connection()->rawCommand('REPLICAOF', '127.0.0.1', (string) $primary->port);
        Wait::until(
            static fn () => $replica->connection()->info('replication')['master_link_status'] === 'up',
            'the replication',
        );
        $this->folder = Wait::folder();
        $ports = [];
        for ($sentinel = 0; $sentinel < $count; $sentinel++) {
            $ports[] = $this->start();
        }
        $this->ports = $ports;
        foreach ($this->ports as $port) {
            Wait::until(static function () use ($port, $count): bool {
                try {
                    $seen = (new \RedisSentinel('127.0.0.1', $port, 1.0, null, 0, 1.0))->master(self::MASTER);
                } catch (\RedisException) {
                    return false;
                }
                return is_array($seen) && $seen['num-slaves'] === '1' && (int) $seen['num-other-sentinels'] === $count - 1;
            }, 'the sentinels');
        }
    }

    public function __destruct()
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
    }

    public function dsn(string $options = ''): string
    {
        $password = $this->password === null ? '' : ':' . rawurlencode($this->password) . '@';
        return "redis+sentinel://{$password}" . implode(',', $this->addresses()) . '/' . self::MASTER . $options;
    }

    /**
     * @return list<string>
     */
    public function addresses(): array
    {
        return array_map(static fn (int $port) => "127.0.0.1:{$port}", $this->ports);
    }

    /**
     * Ends the primary, and waits until every sentinel names the other server.
     */
    public function failOver(): void
    {
        [$primary, $replica] = $this->servers;
        $primary->stop();
        foreach ($this->ports as $port) {
            $sentinel = new \RedisSentinel('127.0.0.1', $port, 2.0);
            Wait::until(
                static fn () => (int) $sentinel->getMasterAddrByName(self::MASTER)[1] === $replica->port,
                'the failover',
            );
        }
        Wait::until(
            static fn () => $replica->connection()->info('replication')['role'] === 'master',
            'the new primary',
        );
    }

    /**
     * @return int its port
     */
    private function start(): int
    {
        $port = Wait::freePort();
        $master = self::MASTER;
        $password = $this->password === null ? '' : "sentinel auth-pass {$master} {$this->password}\n";
        file_put_contents("{$this->folder}/{$port}.conf", <<<CONF
            port {$port}
            bind 127.0.0.1
            dir {$this->folder}
            sentinel monitor {$master} 127.0.0.1 {$this->servers[0]->port} 2
            sentinel down-after-milliseconds {$master} 500
            sentinel failover-timeout {$master} 3000
            {$password}
            CONF);
        $log = ['file', "{$this->folder}/log", 'a'];
        $command = ['redis-server', "{$this->folder}/{$port}.conf", '--sentinel'];
        $this->processes[] = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
        return $port;
    }
}
