<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Php;

final class ReadmeTest extends TestCase
{
    public function testTheExamplePrintsWhatTheReadmeSays(): void
    {
        $readme = file_get_contents(dirname(__DIR__, 2) . '/README.md');
        self::assertSame(1, preg_match('/```php\n(.+?)```.+?```text\n(.+?)```/s', $readme, $found));
        self::assertSame($found[2], Php::run($found[1], ['ratelimit.store' => 'memory:'], ['RATELIMIT_STORE' => ''])->printed());
    }
}
