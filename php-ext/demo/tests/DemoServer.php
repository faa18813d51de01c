<?php

declare(strict_types=1);

namespace RateLimit\Tests\Demo;

use RateLimit\Tests\Support\Port;

/** The demo behind a real `php -S` on a free port; stopped when the object goes. */
final class DemoServer
{
    public readonly int $port;
    private readonly string $state;
    /** @var resource */
    private $process;

    /** @param array<string, string> $environment */
    public function __construct(array $environment = [])
    {
        $demo = dirname(__DIR__);
        $this->port = Port::free();
        $this->state = sys_get_temp_dir() . '/ratelimit-demo-test-' . bin2hex(random_bytes(6));
        mkdir($this->state, 0700);
        $this->process = proc_open(
            [
                PHP_BINARY, '-n', '-d', 'extension=' . getenv('RATELIMIT_SO'), '-d', 'display_errors=1', '-q',
                '-S', "127.0.0.1:{$this->port}", '-t', $demo, "$demo/router.php",
            ],
            [['file', '/dev/null', 'r'], ['file', "{$this->state}/log", 'w'], ['redirect', 1]],
            $pipes,
            env_vars: $environment + ['RATELIMIT_DEMO_STATE' => $this->state],
        );
        for ($tried = 0; !Port::answers($this->port); $tried += 1) {
            if ($tried === 100 || !proc_get_status($this->process)['running']) {
                throw new \RuntimeException("php -S did not start:\n" . file_get_contents("{$this->state}/log"));
            }
            usleep(20_000);
        }
    }

    /**
     * One request, as bytes on a connection of its own, so that nothing tidies the path.
     *
     * @return array{status: int, headers: array<string, string>, body: string, json: mixed} names in lower case
     */
    public function ask(string $method, string $path, string $body = '', array $headers = []): array
    {
        $headers += ['Host' => "127.0.0.1:{$this->port}", 'Connection' => 'close'];
        $headers += $body === '' ? [] : ['Content-Length' => (string) strlen($body)];
        $request = "$method $path HTTP/1.1\r\n";
        foreach ($headers as $name => $value) {
            $request .= "$name: $value\r\n";
        }
        $connection = stream_socket_client("tcp://127.0.0.1:{$this->port}", timeout: 5);
        fwrite($connection, "$request\r\n$body");
        [$head, $answer] = explode("\r\n\r\n", (string) stream_get_contents($connection), 2) + ['', ''];
        $lines = explode("\r\n", $head);
        $fields = [];
        foreach (array_slice($lines, 1) as $line) {
            [$name, $value] = explode(': ', $line, 2);
            $fields[strtolower($name)] = $value;
        }

        return [
            'status' => (int) explode(' ', $lines[0])[1],
            'headers' => $fields,
            'body' => $answer,
            'json' => json_decode($answer, true),
        ];
    }

    /** @param array<string, mixed> $settings */
    public function configure(array $settings): array
    {
        return $this->ask('POST', '/config', json_encode($settings), ['Content-Type' => 'application/json']);
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->state}/*"));
        rmdir($this->state);
    }
}
