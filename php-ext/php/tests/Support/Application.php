<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/** An application in a folder of its own behind a real `php -S`; stopped and removed when the object goes. */
final class Application
{
    public readonly string $folder;
    public readonly int $port;
    /** @var resource|null */
    private $process = null;

    /**
     * @param string $framework psr15, laravel or symfony
     * @param array<string, string> $files paths and contents, over those of the framework's skeleton
     */
    public function __construct(private readonly string $framework, array $files)
    {
        $this->folder = sys_get_temp_dir() . '/ratelimit-application-' . bin2hex(random_bytes(6));
        $fixtures = dirname(__DIR__) . '/fixtures';
        mkdir("{$this->folder}/vendor", 0700, true);
        if (is_dir("$fixtures/$framework")) {
            self::run(['cp', '-r', "$fixtures/$framework/.", $this->folder]);
        }
        $autoload = sprintf('$framework = %s; $folder = %s; require %s;', ...array_map(
            static fn (string $text) => var_export($text, true),
            [$framework, $this->folder, "$fixtures/autoload.php"],
        ));
        foreach ($files + ['vendor/autoload.php' => "<?php $autoload"] as $path => $contents) {
            $place = "{$this->folder}/$path";
            is_dir(dirname($place)) || mkdir(dirname($place), 0700, true);
            file_put_contents($place, $contents);
        }
        $this->port = Port::free();
    }

    /** @param array<string, string> $environment */
    public function serve(array $environment = []): self
    {
        $index = $this->framework === 'laravel' ? 'public/index.php' : 'index.php';
        $this->process = proc_open(
            [
                PHP_BINARY, '-d', 'extension=' . getenv('RATELIMIT_SO'), '-d', 'display_errors=1',
                // The frameworks of Debian are older than this PHP.
                '-d', 'error_reporting=' . (E_ALL & ~E_DEPRECATED), '-S', "127.0.0.1:{$this->port}", "{$this->folder}/$index",
            ],
            [['file', '/dev/null', 'r'], ['file', "{$this->folder}/log", 'w'], ['redirect', 1]],
            $pipes,
            $this->folder,
            $environment + getenv(),
        );
        for ($tried = 0; !Port::answers($this->port); $tried += 1) {
            if ($tried === 500 || !proc_get_status($this->process)['running']) {
                throw new \RuntimeException("php -S did not start:\n" . file_get_contents("{$this->folder}/log"));
            }
            usleep(20_000);
        }

        return $this;
    }

    /**
     * One request.
     *
     * @param list<string> $headers lines
     * @return array{status: int, headers: array<string, string>, body: string} names in lower case
     */
    public function ask(string $path, array $headers = []): array
    {
        $options = ['http' => ['header' => $headers, 'ignore_errors' => true, 'timeout' => 60]];
        $body = file_get_contents("http://127.0.0.1:{$this->port}$path", false, stream_context_create($options));
        $fields = [];
        foreach (array_slice($http_response_header, 1) as $line) {
            [$name, $value] = explode(': ', $line, 2) + ['', ''];
            $fields[strtolower($name)] = $value;
        }

        return ['status' => (int) explode(' ', $http_response_header[0])[1], 'headers' => $fields, 'body' => $body];
    }

    public function log(): string
    {
        return implode('', array_map('file_get_contents', [...glob("{$this->folder}/log"), ...glob("{$this->folder}/storage/logs/*.log")]));
    }

    public function __destruct()
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
        }
        self::run(['rm', '-rf', $this->folder]);
    }

    /** @param list<string> $command */
    private static function run(array $command): void
    {
        proc_close(proc_open($command, [], $pipes));
    }
}
