<?php

declare(strict_types=1);

namespace RateLimit\Demo;

use RateLimit\Policy;

/**
 * The three numbers that the page changes, kept in a file so that they survive from request to request.
 *
 * PHP forgets everything of a request at its end; what the extension holds (connections, the embedded store) stays.
 */
final class Settings
{
    private const DEFAULTS = ['capacity' => 10, 'refill_rate' => 1.0, 'refill_interval' => 1.0];

    /** @param array<string, int|float> $numbers capacity, refill_rate and refill_interval (seconds) */
    private function __construct(private readonly array $numbers, private readonly string $file)
    {
    }

    /** What was saved, or the defaults: 10 tokens, one more each second. */
    public static function load(string $file): self
    {
        $defaults = new self(self::DEFAULTS, $file);
        $saved = is_file($file) ? json_decode((string) file_get_contents($file), true) : null;
        try {
            return is_array($saved) ? $defaults->with($saved) : $defaults;
        } catch (\InvalidArgumentException) {
            // Somebody else may have written the file: whatever makes no policy counts for nothing.
            return $defaults;
        }
    }

    /**
     * These settings with some of them changed.
     *
     * @param array<mixed> $changes by name, `refill_rate` or `refillRate`; numbers, or their text as a form sends it
     * @throws \InvalidArgumentException with a sentence that names the setting; no change is made then
     */
    public function with(array $changes): self
    {
        $numbers = $this->numbers;
        foreach ($changes as $name => $value) {
            $setting = strtolower((string) preg_replace('/(?<=[a-z])(?=[A-Z])/', '_', (string) $name));
            if (!isset($numbers[$setting])) {
                throw new \InvalidArgumentException(sprintf(
                    'there is no setting %s; there are %s',
                    self::quoted((string) $name),
                    implode(', ', array_keys(self::DEFAULTS)),
                ));
            }
            $numbers[$setting] = self::number($setting, $value);
        }
        $changed = new self($numbers, $this->file);
        $changed->policy();

        return $changed;
    }

    /**
     * The policy that the numbers make.
     *
     * @throws \RateLimit\Exception\InvalidPolicy with the library's sentence about the number that is wrong
     */
    public function policy(): Policy
    {
        return Policy::tokenBucket(
            $this->numbers['capacity'],
            $this->numbers['refill_rate'],
            $this->numbers['refill_interval'],
            name: 'demo',
        );
    }

    /** Replaces the file in one step: a reader sees the old settings or the new ones, and no link is followed. */
    public function save(): void
    {
        $new = tempnam(dirname($this->file), 'demo');
        if ($new === false || file_put_contents($new, json_encode($this->numbers)) === false || !rename($new, $this->file)) {
            throw new \RuntimeException("the settings could not be written to {$this->file}");
        }
    }

    /** @return array<string, int|float> as JSON shows them */
    public function toArray(): array
    {
        return $this->numbers;
    }

    private static function number(string $setting, mixed $value): int|float
    {
        if (is_int($value) || is_float($value) || (is_string($value) && is_numeric($value))) {
            return $value + 0;
        }
        $got = is_string($value) ? self::quoted($value) : get_debug_type($value);
        throw new \InvalidArgumentException("$setting must be a number, got $got");
    }

    private static function quoted(string $text): string
    {
        return json_encode(substr($text, 0, 40), JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_UNICODE);
    }
}
