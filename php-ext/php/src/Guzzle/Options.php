<?php

declare(strict_types=1);

namespace RateLimit\Guzzle;

use RateLimit\Exception\InvalidArgument;

/**
 * The names of options, as arrays have them, and as the extension takes them.
 *
 * @internal
 */
final class Options
{
    private const GOVERNOR = [
        'maxRetries' => 'maxRetries', 'safetyBuffer' => 'safetyBuffer', 'safetyBufferSeconds' => 'safetyBuffer',
        'jitter' => 'jitter', 'jitterPercent' => 'jitter', 'throwOnRateLimit' => 'throwOnRateLimit',
        'maxStoreTtl' => 'maxStoreTtl', 'retryStatusCodes' => 'retryStatusCodes', 'globalLimit' => 'globalLimit',
        'invalidRequestLimit' => 'invalidRequestLimit', 'maxDelay' => 'maxDelay', 'maxDelaySeconds' => 'maxDelay',
        'limits' => 'limits', 'secret' => 'secret', 'headers' => 'headers', 'strategy' => 'strategy', 'onError' => 'onError',
        'resolver' => 'resolver',
    ];

    private const REQUEST = [
        'enabled' => 'enabled', 'bucket' => 'bucket', 'identity' => 'identity', 'max_delay' => 'maxDelay',
        'max_retries' => 'maxRetries',
    ];

    private const TYPES = [
        'enabled' => ['bool'], 'bucket' => ['string', 'null'], 'identity' => ['string', 'null'],
        'max_delay' => ['int', 'float', 'null'], 'max_retries' => ['int'],
    ];

    /**
     * The options of a middleware as arguments of the governor.
     *
     * @param array<string, mixed> $options
     * @return array<string, mixed>
     */
    public static function governor(array $options): array
    {
        $arguments = self::named($options, self::GOVERNOR, 'options');
        if (isset($options['jitterPercent'])) {
            $arguments['jitter'] = $options['jitterPercent'] / 100;
        }
        return $arguments;
    }

    /**
     * The request option `rate_limit` as arguments of `before()`; `false` lets the request through.
     *
     * @return array<string, mixed>
     */
    public static function request(mixed $option): array
    {
        if (is_bool($option)) {
            return ['enabled' => $option];
        }
        if (!is_array($option)) {
            throw new \TypeError('rate_limit must be of type array|bool, ' . get_debug_type($option) . ' given');
        }
        $arguments = self::named($option, self::REQUEST, 'rate_limit');
        foreach ($option as $name => $value) {
            if (!in_array(get_debug_type($value), self::TYPES[$name], true)) {
                $types = implode('|', self::TYPES[$name]);
                throw new \TypeError("rate_limit.$name must be of type $types, " . get_debug_type($value) . ' given');
            }
        }
        if (array_key_exists('max_delay', $option) && $option['max_delay'] === null) {
            $arguments['maxDelay'] = INF;
        }
        return $arguments;
    }

    /**
     * @param array<string, mixed>  $options
     * @param array<string, string> $known
     * @return array<string, mixed>
     */
    private static function named(array $options, array $known, string $what): array
    {
        $arguments = [];
        foreach ($options as $name => $value) {
            if (!isset($known[$name])) {
                $names = implode(', ', array_keys($known));
                throw new InvalidArgument("$what must have no entry but $names, got \"$name\"");
            }
            $arguments[$known[$name]] = $value;
        }
        return $arguments;
    }
}
