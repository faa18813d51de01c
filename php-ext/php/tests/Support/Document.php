<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

/** A page of the documentation: the files it shows, and what it says that commands print. */
final class Document
{
    private readonly string $text;

    public function __construct(string $name)
    {
        $this->text = file_get_contents(dirname(__DIR__, 4) . "/docs/$name.md");
    }

    /** @return array<string, string> paths, which stand beside the language, and contents */
    public function files(): array
    {
        preg_match_all('/^```\w+ (\S+)\n(.+?)^```$/ms', $this->text, $found);

        return array_combine($found[1], $found[2]);
    }

    /** @return list<string> the examples in a language that are no files */
    public function blocks(string $language): array
    {
        preg_match_all("/^```$language\n(.+?)^```$/ms", $this->text, $found);

        return $found[1];
    }

    /** @return list<array{string, string}> commands, and what they print */
    public function commands(): array
    {
        preg_match_all('/^```console\n(.+?)^```$/ms', $this->text, $blocks);
        preg_match_all('/^\$ (.+)\n((?:(?!\$ ).*\n)*)/m', implode('', $blocks[1]), $found);

        return array_map(null, $found[1], $found[2]);
    }

    /**
     * Why a command printed something else than the page says; null when it did not. Seconds that have passed since are
     * no difference, as long as they are few.
     */
    public static function difference(string $expected, string $printed): ?string
    {
        $seconds = '/(?<=;t=)\d+|(?<=^429 )\d+$|(?<=again in )\d+/m';
        $same = preg_replace($seconds, 'N', $expected) === preg_replace($seconds, 'N', $printed);
        preg_match_all($seconds, $expected, $told);
        preg_match_all($seconds, $printed, $seen);
        $late = array_map(static fn (string $told, string $seen) => (int) $told - (int) $seen, $told[0], $same ? $seen[0] : $told[0]);
        if ($same && array_filter($late, static fn (int $late) => $late < 0 || $late > 30) === []) {
            return null;
        }

        return "expected\n$expected\ngot\n$printed";
    }

    /** What a command of the page prints, with the page's address replaced. */
    public static function run(string $command, int $port): string
    {
        $process = proc_open(
            ['sh', '-c', str_replace('localhost:8000', "127.0.0.1:$port", $command)],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]],
            $pipes,
        );
        $printed = stream_get_contents($pipes[1]);
        proc_close($process);

        return $printed;
    }
}
