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

    private function check(Document $document, int $port, callable $log): void
    {
        self::assertGreaterThan(3, count($document->commands()));
        foreach ($document->commands() as [$command, $expected]) {
            $difference = Document::difference($expected, Document::run($command, $port));
            self::assertNull($difference, "$command\n$difference\n" . substr($log(), -3000));
        }
    }
}
