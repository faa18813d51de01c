<?php

declare(strict_types=1);

namespace RateLimit\Tests\Demo;

use PHPUnit\Framework\TestCase;
use RateLimit\Tests\Support\Port;

/** scripts/demo, with an extension that is built already. */
final class ScriptTest extends TestCase
{
    /** @dataProvider endings */
    public function testItServesUntilItIsStoppedAndLeavesNothingBehind(int $signal, bool $wholeGroup): void
    {
        $port = Port::free();
        [$process, $output, $group] = $this->start(['PORT' => (string) $port]);

        $printed = '';
        while (($line = fgets($output)) !== false) {
            $printed .= $line;
            if (str_starts_with($line, 'ratelimit demo: ')) {
                break;
            }
        }
        self::assertStringContainsString("\nratelimit demo: http://localhost:$port ", "\n$printed");
        $post = stream_context_create(['http' => ['method' => 'POST']]);
        $answer = file_get_contents("http://localhost:$port/test", context: $post);
        self::assertTrue(json_decode($answer, true)['allowed']);

        self::assertTrue(posix_kill($wholeGroup ? -$group : $group, $signal));
        self::assertSame("\nratelimit demo: stopped\n", stream_get_contents($output));
        self::assertSame(0, proc_close($process));
        self::assertFalse(Port::answers($port));
        self::assertFalse(posix_kill(-$group, 0), 'a process of the group is left');
    }

    public static function endings(): iterable
    {
        yield 'Ctrl-C, which a terminal sends to every process of the group' => [SIGINT, true];
        yield 'SIGINT to the script alone' => [SIGINT, false];
        yield 'SIGTERM to the script alone' => [SIGTERM, false];
        yield 'the terminal is closed' => [SIGHUP, true];
    }

    public function testATakenPortIsSaidBeforeAnythingElse(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $port = substr((string) strrchr(stream_socket_get_name($listener, false), ':'), 1);
        [$process, $output] = $this->start(['PORT' => $port]);

        $printed = stream_get_contents($output);
        self::assertStringContainsString("port $port is taken by another program", $printed);
        self::assertStringContainsString('make demo', $printed);
        self::assertSame(1, proc_close($process));
    }

    public function testAPortThatIsNoneIsNamed(): void
    {
        foreach (['0', '65536', '80x', '-1'] as $port) {
            [$process, $output] = $this->start(['PORT' => $port]);
            self::assertStringContainsString("PORT must be a number between 1 and 65535, got '$port'", stream_get_contents($output));
            self::assertSame(1, proc_close($process));
        }
    }

    /**
     * The script in a process group of its own, and with SIGINT as a terminal has it, however this test was started.
     *
     * @param array<string, string> $environment
     * @return array{resource, resource, int} process, its output, its group
     */
    private function start(array $environment): array
    {
        $process = proc_open(
            ['setsid', 'env', '--default-signal=INT', dirname(__DIR__, 3) . '/scripts/demo'],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]],
            $pipes,
            env_vars: $environment + getenv(),
        );

        return [$process, $pipes[1], proc_get_status($process)['pid']];
    }
}
