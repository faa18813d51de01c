<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * A real Redis Cluster of three primaries, each with a third of the slots.
 */
final class Cluster
{
    /** @var list<RedisServer> */
    public readonly array $nodes;

    /**
     * @param list<string> $options of each node, as on its command line
     * @param null|string $password the one among the options
     */
    public function __construct(array $options = [], private readonly ?string $password = null)
    {
        $options = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', ...$options];
        $this->nodes = array_map(static fn () => new RedisServer($options, self::freePort()), range(1, 3));
        foreach ($this->nodes as $number => $node) {
            $first = intdiv(16384 * $number, 3);
            $node->connection()->rawCommand('CLUSTER', 'SET-CONFIG-EPOCH', $number + 1);
            $node->connection()->rawCommand('CLUSTER', 'ADDSLOTS', ...range($first, intdiv(16384 * ($number + 1), 3) - 1));
        }
        // A meeting that is not over in time is forgotten, so it is asked for until all have met.
        Wait::until(function (): bool {
            foreach ($this->nodes as $node) {
                $node->connection()->rawCommand('CLUSTER', 'MEET', '127.0.0.1', $this->nodes[0]->port);
            }
            usleep(100_000);
            return array_filter($this->nodes, static fn (RedisServer $node) => !self::isWhole($node)) === [];
        }, 'the cluster');
    }

    /**
     * @return list<string>
     */
    public function addresses(): array
    {
        return array_map(static fn (RedisServer $node) => "127.0.0.1:{$node->port}", $this->nodes);
    }

    public function dsn(string $options = ''): string
    {
        $password = $this->password === null ? '' : ':' . rawurlencode($this->password) . '@';
        return "redis+cluster://{$password}" . implode(',', $this->addresses()) . $options;
    }

    /**
     * Starts a node anew, with its place in the cluster and nothing else.
     */
    public function restart(int $node): void
    {
        $this->nodes[$node]->restart();
        $this->waitFor($this->nodes[$node]);
    }

    /**
     * The number of the node that has a key of a token bucket called "default".
     */
    public function nodeOf(string $key): int
    {
        $slot = $this->nodes[0]->connection()->rawCommand('CLUSTER', 'KEYSLOT', "rl:tb:default:{{$key}}");
        foreach ($this->nodes[0]->connection()->rawCommand('CLUSTER', 'SLOTS') as [$first, $last, $primary]) {
            if ($first <= $slot && $slot <= $last) {
                return array_search($primary[1], array_column($this->nodes, 'port'), true);
            }
        }
        throw new \RuntimeException("nobody has slot {$slot}");
    }

    /**
     * How often a command has been carried out, on each node.
     *
     * @return list<int>
     */
    public function calls(string $command): array
    {
        return array_map(static fn (RedisServer $node) => $node->calls($command), $this->nodes);
    }

    private function waitFor(RedisServer $node): void
    {
        Wait::until(static fn () => self::isWhole($node), 'the cluster');
    }

    private static function isWhole(RedisServer $node): bool
    {
        $info = $node->connection()->rawCommand('CLUSTER', 'INFO');
        return str_contains($info, 'cluster_state:ok') && str_contains($info, 'cluster_known_nodes:3');
    }

    /**
     * One whose companion, for the nodes' own talk, is free as well.
     */
    private static function freePort(): int
    {
        do {
            $port = Wait::freePort();
            $companion = $port < 55000 ? @stream_socket_server('tcp://127.0.0.1:' . ($port + 10000)) : false;
        } while ($companion === false);
        fclose($companion);
        return $port;
    }
}
