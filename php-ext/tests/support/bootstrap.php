<?php

declare(strict_types=1);

require_once 'Predis/autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'RateLimit\\Tests\\')) {
        $file = __DIR__ . '/' . substr($class, strlen('RateLimit\\Tests\\')) . '.php';
        is_file($file) && require $file;
    }
});
