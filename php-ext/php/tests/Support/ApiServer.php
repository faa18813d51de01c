<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/**
 * An API on loopback: PHP's own web server, which gives the answers of a script in turn and writes down what came.
 */
final class ApiServer
{
    public readonly string $url;

    /** @var resource */
    private $process;

    private string $folder;

    /** @param list<array{0: int, 1: array<string, string>, 2: string}> $answers The last one is given again and again. */
    public function __construct(array $answers)
    {
        $this->folder = sys_get_temp_dir() . '/ratelimit-api-' . bin2hex(random_bytes(8));
        mkdir($this->folder);
        file_put_contents("$this->folder/answers.json", json_encode($answers, JSON_THROW_ON_ERROR));
        file_put_contents("$this->folder/requests", '');
        $port = Port::free();
        $this->url = "http://127.0.0.1:$port";
        $command = [PHP_BINARY, '-n', '-S', "127.0.0.1:$port", __DIR__ . '/api_router.php'];
        $silent = ['file', '/dev/null', 'w'];
        $this->process = proc_open($command, [1 => $silent, 2 => $silent], $pipes, null, ['API_FOLDER' => $this->folder]);
        for ($tries = 0; $tries < 500; $tries++) {
            $socket = @fsockopen('127.0.0.1', $port);
            if ($socket !== false) {
                fclose($socket);
                return;
            }
            usleep(10_000);
        }
        throw new \RuntimeException("nothing listens on $this->url");
    }

    /** @return list<array{method: string, path: string, body: string}> */
    public function requests(): array
    {
        $lines = array_filter(explode("\n", file_get_contents("$this->folder/requests")));
        return array_map(static fn (string $line) => json_decode($line, true), array_values($lines));
    }

    public function __destruct()
    {
        proc_terminate($this->process);
        proc_close($this->process);
        array_map('unlink', glob("$this->folder/*"));
        rmdir($this->folder);
    }
}
