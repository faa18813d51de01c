<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * A real php-fpm with the extension, and requests through a FastCGI client.
 */
final class FpmServer
{
    private readonly string $folder;

    /** @var resource */
    private $process;

    /**
     * @param array<string, string> $settings of PHP
     */
    public function __construct(int $workers, array $settings = [])
    {
        $this->folder = Wait::folder();
        // Read by root only where the tests run as root; otherwise php-fpm warns and ignores it.
        $user = posix_geteuid() === 0 ? "user = root\n" : '';
        file_put_contents("{$this->folder}/fpm.conf", <<<CONF
            [global]
            error_log = {$this->folder}/log
            [www]
            {$user}listen = {$this->folder}/fpm.sock
            pm = static
            pm.max_children = {$workers}
            clear_env = no
            security.limit_extensions =
            catch_workers_output = yes
            CONF);
        $command = [self::binary(), '-n', '-F', '-y', "{$this->folder}/fpm.conf", '-d', 'extension=' . Php::extension()];
        if (posix_geteuid() === 0) {
            $command[] = '-R';
        }
        foreach ($settings as $name => $value) {
            array_push($command, '-d', "{$name}={$value}");
        }
        $log = ['file', "{$this->folder}/output", 'a'];
        // The environment would come before the setting.
        $environment = (isset($settings['ratelimit.store']) ? ['RATELIMIT_STORE' => ''] : []) + getenv();
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes, null, $environment);
        Wait::until(function (): bool {
            if (!proc_get_status($this->process)['running']) {
                throw new \RuntimeException('php-fpm: ' . $this->log());
            }
            return @stream_socket_client("unix://{$this->folder}/fpm.sock") !== false;
        }, 'php-fpm');
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
    }

    /**
     * The body of the answer to one request for a script.
     */
    public function get(string $script, string $query = ''): string
    {
        return $this->getAtOnce($script, [$query])[0];
    }

    /**
     * The bodies of the answers to requests that are made at the same time.
     *
     * @param list<string> $queries
     *
     * @return list<string>
     */
    public function getAtOnce(string $script, array $queries): array
    {
        $requests = [];
        foreach ($queries as $query) {
            $environment = [
                'SCRIPT_FILENAME' => realpath($script), 'SCRIPT_NAME' => '/' . basename($script), 'REQUEST_METHOD' => 'GET',
                'QUERY_STRING' => $query, 'PATH' => getenv('PATH'),
            ];
            $command = ['cgi-fcgi', '-bind', '-connect', "{$this->folder}/fpm.sock"];
            $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes, null, $environment);
            $requests[] = [$process, $pipes[1]];
        }
        return array_map(static function (array $request): string {
            [$process, $output] = $request;
            $answer = stream_get_contents($output);
            proc_close($process);
            return explode("\r\n\r\n", $answer, 2)[1] ?? throw new \RuntimeException("no answer: {$answer}");
        }, $requests);
    }

    public function log(): string
    {
        return @file_get_contents("{$this->folder}/log") . @file_get_contents("{$this->folder}/output");
    }

    private static function binary(): string
    {
        $version = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        foreach (["/usr/sbin/php-fpm{$version}", dirname(PHP_BINARY, 2) . '/sbin/php-fpm'] as $binary) {
            if (is_executable($binary)) {
                return $binary;
            }
        }
        throw new \RuntimeException("php-fpm {$version} is not installed");
    }
}
