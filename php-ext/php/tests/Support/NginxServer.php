<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/** A real nginx before a real php-fpm with the extension, both in a folder of their own; stopped when the object goes. */
final class NginxServer
{
    public readonly int $port;
    private readonly string $folder;
    /** @var list<resource> */
    private array $processes = [];

    /**
     * @param array<string, string> $files `nginx.conf` and `index.php`
     * @param array<string, string> $instead texts in the configuration, and what stands there instead
     */
    public function __construct(array $files, array $instead = [])
    {
        $this->port = Port::free();
        $this->folder = sys_get_temp_dir() . '/ratelimit-nginx-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0755);
        $instead += [
            'localhost:8000' => "127.0.0.1:{$this->port}",
            '/var/www/index.php' => "{$this->folder}/index.php",
            '/run/php/php8.2-fpm.sock' => "{$this->folder}/fpm.sock",
        ];
        $temporary = '';
        foreach (['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'] as $kind) {
            $temporary .= "{$kind}_temp_path {$this->folder}/$kind;\n";
        }
        $configuration = str_replace("http {\n", "http {\n$temporary access_log off;\n", strtr($files['nginx.conf'], $instead));
        $root = posix_geteuid() === 0 ? "user root;\n" : '';
        $head = "daemon off;\npid {$this->folder}/nginx.pid;\nerror_log {$this->folder}/log;\n$root";
        file_put_contents("{$this->folder}/nginx.conf", $head . $configuration);
        file_put_contents("{$this->folder}/index.php", $files['index.php']);
        $user = posix_geteuid() === 0 ? "user = root\n" : '';
        file_put_contents("{$this->folder}/fpm.conf", <<<CONF
            [global]
            error_log = {$this->folder}/log
            [www]
            {$user}listen = {$this->folder}/fpm.sock
            pm = static
            pm.max_children = 2
            CONF);
        $version = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        $this->start([
            "/usr/sbin/php-fpm$version", '-n', '-F', '-y', "{$this->folder}/fpm.conf",
            '-d', 'extension=' . getenv('RATELIMIT_SO'), ...(posix_geteuid() === 0 ? ['-R'] : []),
        ]);
        $this->until(fn () => @stream_socket_client("unix://{$this->folder}/fpm.sock") !== false);
        $this->start(['/usr/sbin/nginx', '-p', $this->folder, '-e', "{$this->folder}/log", '-c', "{$this->folder}/nginx.conf"]);
        $this->until(fn () => Port::answers($this->port));
    }

    public function log(): string
    {
        return (string) @file_get_contents("{$this->folder}/log") . @file_get_contents("{$this->folder}/output");
    }

    /** @param list<string> $command */
    private function start(array $command): void
    {
        $output = ['file', "{$this->folder}/output", 'a'];
        $this->processes[] = proc_open($command, [['file', '/dev/null', 'r'], $output, $output], $pipes);
    }

    private function until(callable $ready): void
    {
        for ($tried = 0; !$ready(); $tried += 1) {
            if ($tried === 500 || !proc_get_status(end($this->processes))['running']) {
                throw new \RuntimeException("the server did not start:\n{$this->log()}");
            }
            usleep(20_000);
        }
    }

    public function __destruct()
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGTERM);
            proc_close($process);
        }
        proc_close(proc_open(['rm', '-rf', $this->folder], [], $pipes));
    }
}
