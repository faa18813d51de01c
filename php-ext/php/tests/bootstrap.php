<?php

declare(strict_types=1);

if (!extension_loaded('ratelimit')) {
    fwrite(STDERR, "The extension is not loaded; run the tests with php-ext/php/tests/run.\n");
    exit(1);
}

// tests/run asks for a second pass with the newer signatures of PSR-7.
if (getenv('RATELIMIT_TEST_PSR7') === '2') {
    require_once __DIR__ . '/Support/psr7_2.php';
}
// Debian's php-nyholm-psr7 brings PSR-7 and PSR-17 along, and no package of Debian's brings PSR-15.
require_once 'Nyholm/Psr7/autoload.php';
require_once 'Psr/Log/autoload.php';
require_once 'Psr/EventDispatcher/autoload.php';
require_once 'Symfony/Component/RateLimiter/autoload.php';
require_once __DIR__ . '/Support/psr15.php';
require_once 'GuzzleHttp/autoload.php';
require_once 'Psr/EventDispatcher/autoload.php';
require_once 'Psr/Log/autoload.php';
require_once __DIR__ . '/../autoload.php';

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/Support/' . basename(strtr($class, '\\', '/')) . '.php';
    if (str_starts_with($class, 'RateLimit\\Tests\\Support\\') && is_file($file)) {
        require $file;
    }
});
