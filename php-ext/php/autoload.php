<?php

/**
 * Loads the library's classes where there is no Composer: `require 'php-ext/php/autoload.php';`.
 */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    if (!str_starts_with($class, 'RateLimit\\')) {
        return;
    }
    $file = __DIR__ . '/src/' . strtr(substr($class, strlen('RateLimit\\')), '\\', '/') . '.php';
    if (is_file($file)) {
        require $file;
    }
});
