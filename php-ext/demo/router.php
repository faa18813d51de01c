<?php

/**
 * The demo's routes, for PHP's own web server: `php -S localhost:8080 router.php` with the extension loaded.
 *
 *   GET  /        the page
 *   POST /test    one call of the limiter
 *   POST /config  new capacity, refill_rate, refill_interval; a JSON object or a form
 *
 * REDIS_HOST and REDIS_PORT name the Redis to use; without them the state is in this process. The settings are kept in
 * the folder that RATELIMIT_DEMO_STATE names, else in the system's folder for temporary files, one file per port.
 */

declare(strict_types=1);

namespace RateLimit\Demo;

use RateLimit\Exception\StoreUnavailable;
use RateLimit\Limiter;
use RateLimit\Store;

require __DIR__ . '/Settings.php';

/** All visitors of the page share one budget. */
const KEY = 'demo:request';
const MAX_BODY_BYTES = 4096;

// Every file that can be asked for; nothing else of this folder ever is.
const FILES = ['/style.css' => 'text/css', '/demo.js' => 'text/javascript'];

const METHODS = ['/' => 'GET', '/index.html' => 'GET', '/test' => 'POST', '/config' => 'POST']
    + ['/style.css' => 'GET', '/demo.js' => 'GET'];

header("Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    . "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
header('X-Content-Type-Options: nosniff');
header('Cache-Control: no-store');

try {
    if (!extension_loaded('ratelimit')) {
        throw new \RuntimeException('the extension is not loaded: php -d extension=/path/to/libratelimit_php.so -S …');
    }
    respond((string) strtok($_SERVER['REQUEST_URI'], '?'), $_SERVER['REQUEST_METHOD']);
} catch (StoreUnavailable $error) {
    answer(503, ['success' => false, 'error' => $error->getMessage(), 'kind' => $error->kind]);
} catch (\Throwable $error) {
    error_log((string) $error);
    answer(500, ['success' => false, 'error' => 'The demo failed; its log says why.']);
}

function respond(string $path, string $method): void
{
    $expected = METHODS[$path] ?? null;
    if ($expected === null) {
        answer(404, ['success' => false, 'error' => 'There is nothing here; try GET /, POST /test or POST /config.']);
    } elseif ($method !== $expected && !($method === 'HEAD' && $expected === 'GET')) {
        header("Allow: $expected");
        answer(405, ['success' => false, 'error' => "Ask with $expected."]);
    } elseif (isset(FILES[$path])) {
        header('Content-Type: ' . FILES[$path] . '; charset=utf-8');
        readfile(__DIR__ . $path);
    } elseif ($expected === 'GET') {
        page();
    } elseif (($_SERVER['HTTP_SEC_FETCH_SITE'] ?? 'none') === 'cross-site') {
        // A page of somebody else's, open in the same browser, has no business here.
        answer(403, ['success' => false, 'error' => 'This is for the demo page alone.']);
    } elseif ((int) ($_SERVER['CONTENT_LENGTH'] ?? 0) > MAX_BODY_BYTES) {
        answer(413, ['success' => false, 'error' => 'The body may have ' . MAX_BODY_BYTES . ' bytes at most.']);
    } elseif ($path === '/test') {
        test();
    } else {
        configure();
    }
}

function page(): void
{
    $settings = settings();
    try {
        $decision = limiter($settings)->peek(KEY);
        $problem = '';
    } catch (StoreUnavailable $error) {
        $decision = null;
        $problem = $error->getMessage();
    }
    $store = store()->kind() === 'redis' ? 'Redis at ' . redis_address() : 'memory of this server process';
    header('Content-Type: text/html; charset=utf-8');
    require __DIR__ . '/page.php';
}

function test(): void
{
    $settings = settings();
    $decision = limiter($settings)->allow(KEY);
    answer(200, [
        'allowed' => $decision->allowed,
        'remaining' => $decision->remaining,
        'limit' => $decision->limit,
        'retry_after' => $decision->retryAfter,
        'reset_after' => $decision->resetAfter,
        'headers' => $decision->headers('x-ratelimit'),
        'config' => $settings->toArray(),
    ]);
}

function configure(): void
{
    $changes = body();
    if ($changes === null) {
        answer(400, ['success' => false, 'error' => 'The body must be a JSON object or a form.']);
        return;
    }
    try {
        $settings = settings()->with($changes);
    } catch (\InvalidArgumentException $error) {
        answer(422, ['success' => false, 'error' => $error->getMessage(), 'config' => settings()->toArray()]);
        return;
    }
    // Asked before anything is saved: where the store does not answer, nothing changes.
    $decision = limiter($settings)->peek(KEY);
    $settings->save();
    answer(200, [
        'success' => true,
        'config' => $settings->toArray(),
        'remaining' => $decision->remaining,
        'limit' => $decision->limit,
        'reset_after' => $decision->resetAfter,
    ]);
}

function settings(): Settings
{
    $folder = getenv('RATELIMIT_DEMO_STATE');
    return Settings::load(
        $folder ? "$folder/settings.json" : sys_get_temp_dir() . "/ratelimit-demo-{$_SERVER['SERVER_PORT']}.json",
    );
}

function limiter(Settings $settings): Limiter
{
    return new Limiter($settings->policy(), store());
}

/** The same store in every request: one name stands for one store as long as the process lives. */
function store(): Store
{
    $address = redis_address();
    return Store::open($address === null ? 'memory:' : "redis://$address");
}

/** host:port of the Redis to use, or null for none. */
function redis_address(): ?string
{
    $host = (string) getenv('REDIS_HOST');
    $port = (string) getenv('REDIS_PORT');
    if ($host === '' && $port === '') {
        return null;
    }
    $host = $host === '' ? '127.0.0.1' : $host;
    return (str_contains($host, ':') ? "[$host]" : rawurlencode($host)) . ':' . ($port === '' ? '6379' : $port);
}

/** @return array<mixed>|null what a JSON object or a form says; null for anything else */
function body(): ?array
{
    if (str_starts_with(strtolower($_SERVER['CONTENT_TYPE'] ?? ''), 'application/json')) {
        $value = json_decode((string) file_get_contents('php://input', length: MAX_BODY_BYTES));
        return is_object($value) ? get_object_vars($value) : null;
    }
    return $_POST;
}

/** @param array<string, mixed> $value */
function answer(int $status, array $value): void
{
    http_response_code($status);
    header('Content-Type: application/json');
    echo json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
