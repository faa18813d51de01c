<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Php;

/**
 * What an editor is told about the extension is what the extension is.
 */
final class StubsTest extends TestCase
{
    private const DESCRIBE = __DIR__ . '/../support/describe.php';
    private const STUBS = __DIR__ . '/../../stubs';

    public function testTheStubsDeclareExactlyWhatTheExtensionDoes(): void
    {
        $loaded = Php::start([...Php::command(), self::DESCRIBE])->printed();
        $stubs = Php::start([PHP_BINARY, '-n', self::DESCRIBE, self::STUBS])->printed();
        self::assertStringContainsString('RateLimit\\\\Limiter', $loaded);
        self::assertSame($loaded, $stubs);
    }

    public function testEverythingInTheStubsHasADocblock(): void
    {
        $files = [...glob(self::STUBS . '/*.php'), ...glob(self::STUBS . '/*/*.php')];
        self::assertNotEmpty($files);
        foreach ($files as $file) {
            $tokens = array_values(array_filter(
                \PhpToken::tokenize(file_get_contents($file)),
                static fn (\PhpToken $token) => !$token->is([T_WHITESPACE, T_READONLY, T_FINAL]),
            ));
            foreach ($tokens as $at => $token) {
                if ($token->is([T_PUBLIC, T_CLASS, T_INTERFACE]) && !$tokens[$at - 1]->is(T_DOUBLE_COLON)) {
                    self::assertSame(T_DOC_COMMENT, $tokens[$at - 1]->id, basename($file) . ", line {$token->line}");
                }
            }
        }
    }

    public function testAStubThatIsCalledWithoutTheExtensionFailsLoudly(): void
    {
        $run = Php::start([PHP_BINARY, '-n', '-r', 'require "' . self::STUBS . '/TokenBucket.php"; new TokenBucket();']);
        self::assertSame(255, $run->status);
        self::assertStringContainsString('the extension ratelimit is not loaded', $run->errors . $run->output);
    }
}
