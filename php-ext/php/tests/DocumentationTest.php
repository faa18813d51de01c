<?php

declare(strict_types=1);

namespace RateLimit\Tests;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Support\Application;
use RateLimit\Tests\Support\Document;
use RateLimit\Tests\Support\NginxServer;
use RateLimit\Tests\Support\RedisServer;

/** The examples of the documentation, run as they stand there, print what it says. */
final class DocumentationTest extends TestCase
{
    /** @dataProvider frameworks */
    public function testTheExampleOfAFrameworkPrintsWhatItsPageSays(string $framework): void
    {
        $redis = new RedisServer();
        $document = new Document($framework);
        $application = new Application($framework, $document->files());
        $application->serve(['RATELIMIT_STORE' => "{$redis->dsn()}?timeout=5"]);
        $this->check($document, $application->port, $application->log(...));
    }

    public static function frameworks(): iterable
    {
        foreach (['psr15', 'laravel', 'symfony'] as $framework) {
            yield $framework => [$framework];
        }
    }

    public function testTheExampleBehindNginxPrintsWhatItsPageSays(): void
    {
        $redis = new RedisServer();
        $document = new Document('php-fpm-nginx');
        $server = new NginxServer($document->files(), ['redis://127.0.0.1:6379' => "{$redis->dsn()}?timeout=5"]);
        $this->check($document, $server->port, $server->log(...));
    }

    public function testTheProgramOfThePageOnEventsPrintsWhatThePageSays(): void
    {
        $document = new Document('events');
        $folder = sys_get_temp_dir() . '/ratelimit-events-' . bin2hex(random_bytes(6));
        mkdir("$folder/vendor", 0700, true);
        file_put_contents("$folder/events.php", $document->files()['events.php']);
        $library = var_export(dirname(__DIR__) . '/autoload.php', true);
        file_put_contents("$folder/vendor/autoload.php", "<?php require 'Psr/Log/autoload.php'; require $library;");
        $printed = shell_exec(implode(' ', array_map(escapeshellarg(...), [
            PHP_BINARY, '-d', 'extension=' . getenv('RATELIMIT_SO'), '-d', 'display_errors=1', "$folder/events.php",
        ])) . ' 2>&1');
        array_map(unlink(...), ["$folder/events.php", "$folder/vendor/autoload.php"]);
        array_map(rmdir(...), ["$folder/vendor", $folder]);
        $expected = array_column($document->commands(), 1, 0)['php events.php'];
        self::assertSame($expected, $printed);
    }

    /** @dataProvider apis */
    public function testTheExamplesOfAPageOnCallingAnApiRun(string $page): void
    {
        $blocks = (new Document($page))->blocks('php');
        self::assertNotEmpty($blocks);
        $file = tempnam(sys_get_temp_dir(), 'ratelimit-page-');
        $head = 'require ' . var_export(__DIR__ . '/bootstrap.php', true) . ';';
        file_put_contents($file, "<?php\ndeclare(strict_types=1);\n$head\n" . implode("\n", $blocks));
        $settings = ['-d', 'zend.assertions=1', '-d', 'assert.exception=1', '-d', 'extension=' . getenv('RATELIMIT_SO')];
        $process = proc_open([PHP_BINARY, ...$settings, $file], [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
        $printed = stream_get_contents($pipes[1]);
        $status = proc_close($process);
        unlink($file);
        self::assertSame([0, ''], [$status, $printed]);
    }

    public static function apis(): iterable
    {
        foreach (['outbound-guzzle', ...array_map(
            static fn (string $file) => 'outbound/' . basename($file, '.md'),
            glob(dirname(__DIR__, 3) . '/docs/outbound/*.md'),
        )] as $page) {
            yield $page => [$page];
        }
    }

    private function check(Document $document, int $port, callable $log): void
    {
        self::assertGreaterThan(3, count($document->commands()));
        foreach ($document->commands() as [$command, $expected]) {
            $difference = Document::difference($expected, Document::run($command, $port));
            self::assertNull($difference, "$command\n$difference\n" . substr($log(), -3000));
        }
    }
}
