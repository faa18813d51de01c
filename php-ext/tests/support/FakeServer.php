<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * A listener that gives answers no real server can be made to give, or gives them late.
 *
 * Each command, on whatever connection, gets the next answer of the list, and the last one again and again.
 */
final class FakeServer
{
    /** @var resource */
    private $process;

    private readonly string $address;

    /**
     * @param list<array{float, string}> $answers seconds to wait, and the bytes to send
     */
    public function __construct(array $answers)
    {
        $command = [PHP_BINARY, '-n', __DIR__ . '/../fixtures/fake_server.php', base64_encode(serialize($answers))];
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w']], $pipes);
        $this->address = trim(fgets($pipes[1]));
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }

    public function address(): string
    {
        return $this->address;
    }
}
