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

    private function check(Document $document, int $port, callable $log): void
    {
        self::assertGreaterThan(3, count($document->commands()));
        foreach ($document->commands() as [$command, $expected]) {
            $difference = Document::difference($expected, Document::run($command, $port));
            self::assertNull($difference, "$command\n$difference\n" . substr($log(), -3000));
        }
    }
}
