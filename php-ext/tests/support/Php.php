<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * PHP processes of a test's own, with nothing loaded but the extension under test.
 */
final class Php
{
    private function __construct(
        public readonly string $output,
        public readonly string $errors,
        public readonly int $status,
    ) {
    }

    /**
     * The shared library under test.
     */
    public static function extension(): string
    {
        return getenv('RATELIMIT_SO') ?: throw new \LogicException('RATELIMIT_SO names the extension under test');
    }

    /**
     * The command that starts PHP with the extension.
     *
     * @param array<string, string> $settings
     *
     * @return list<string>
     */
    public static function command(array $settings = []): array
    {
        $command = [PHP_BINARY, '-n', '-d', 'extension=' . self::extension(), '-d', 'display_errors=stderr'];
        foreach ($settings as $name => $value) {
            array_push($command, '-d', "{$name}={$value}");
        }
        return $command;
    }

    /**
     * Runs code to its end.
     *
     * @param array<string, string> $settings
     * @param array<string, string> $environment
     */
    public static function run(string $code, array $settings = [], array $environment = []): self
    {
        return self::start([...self::command($settings), '-r', $code], $environment);
    }

    /**
     * Runs a command to its end.
     *
     * @param list<string> $command
     * @param array<string, string> $environment
     */
    public static function start(array $command, array $environment = []): self
    {
        $errors = tmpfile();
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], $errors], $pipes, null, $environment + getenv());
        $output = stream_get_contents($pipes[1]);
        $status = proc_close($process);
        rewind($errors);
        return new self($output, stream_get_contents($errors), $status);
    }

    /**
     * What it printed; fails if it did not end well.
     */
    public function printed(): string
    {
        if ($this->status !== 0 || $this->errors !== '') {
            throw new \RuntimeException("PHP ended with {$this->status}: {$this->errors}{$this->output}");
        }
        return $this->output;
    }
}
