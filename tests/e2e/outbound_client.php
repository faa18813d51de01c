<?php

// Calls an API under a governor as often as it is told to, and says what came back.
//
//     outbound_client.php CLIENT PRESET DSN URL COUNT OPTIONS NAME PATH...
//
// CLIENT is `guzzle`, one request after the other, or `pool`, four at a time. OPTIONS is JSON: `buffer`, and `invalid`
// and `everything` as pairs of a count and seconds.

declare(strict_types=1);

use GuzzleHttp\Client;
use GuzzleHttp\Handler\CurlMultiHandler;
use GuzzleHttp\HandlerStack;
use GuzzleHttp\Pool;
use GuzzleHttp\Psr7\Request;
use RateLimit\Guzzle\RateLimitMiddleware;
use RateLimit\Outbound\GlobalLimit;
use RateLimit\Outbound\InvalidRequestLimit;

require_once 'GuzzleHttp/autoload.php';
require_once 'Psr/EventDispatcher/autoload.php';
require_once 'Psr/Log/autoload.php';
require_once __DIR__ . '/../../php-ext/php/autoload.php';

[, $client, $preset, $dsn, $url, $count, $options, $name] = $argv;
$paths = array_slice($argv, 8);
$given = json_decode($options, true, flags: JSON_THROW_ON_ERROR);
$options = ['safetyBuffer' => (float) $given['buffer']];
if (isset($given['invalid'])) {
    $options['invalidRequestLimit'] = new InvalidRequestLimit(...$given['invalid']);
}
if (isset($given['everything'])) {
    $options['globalLimit'] = new GlobalLimit(...$given['everything']);
}
$stack = HandlerStack::create();
$stack->push(RateLimitMiddleware::create($preset, $dsn, $options), 'rate_limit');
$headers = ['Authorization' => 'Bot of all', 'X-Worker' => $name];
$guzzle = new Client(['handler' => $stack, 'base_uri' => $url, 'http_errors' => false, 'headers' => $headers]);

$statuses = [];
$requests = static function () use ($paths, $count): iterable {
    for ($sent = 0; $sent < $count; $sent++) {
        yield new Request('GET', $paths[$sent % count($paths)]);
    }
};
$seen = static function ($response) use (&$statuses): void {
    $status = $response->getStatusCode();
    $statuses[$status] = ($statuses[$status] ?? 0) + 1;
};
if ($client === 'pool') {
    $failed = static fn (Throwable $error) => throw $error;
    (new Pool($guzzle, $requests(), ['concurrency' => 4, 'fulfilled' => $seen, 'rejected' => $failed]))->promise()->wait();
} else {
    foreach ($requests() as $request) {
        $seen($guzzle->send($request));
    }
}
echo json_encode((object) $statuses), "\n";
