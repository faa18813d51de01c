<?php

// Does what each line of standard input says, and answers with a line:
//
// `lock KEY`, `lease KEY`: the holder's text, or none. `unlock KEY TEXT`, `return KEY TEXT`: whether it was held.
// `count KEY FILE TIMES`: adds so often one to the number in a file under a lock. `enter KEY FOLDER TIMES`: enters a folder
// so often under a lease, and tells how many were inside at most.

declare(strict_types=1);

[, $dsn, $limit] = $argv;
$lock = new RateLimit\Lock($dsn);
$limited = new RateLimit\Concurrency((int) $limit, 600.0, $dsn, 'e2e');

$count = static function (string $key, string $file, string $times) use ($lock): string {
    for ($turn = 0; $turn < (int) $times; $turn++) {
        $lock->run($key, 600.0, static fn () => file_put_contents($file, (int) file_get_contents($file) + 1), INF);
    }
    return $times;
};
$enter = static function (string $key, string $folder, string $times) use ($limited): int {
    [$place, $most] = [$folder . '/' . getmypid(), 0];
    for ($turn = 0; $turn < (int) $times; $turn++) {
        $most = max($most, $limited->run($key, static function () use ($folder, $place): int {
            touch($place);
            $inside = count(scandir($folder)) - 2;
            unlink($place);
            return $inside;
        }, INF));
    }
    return $most;
};
while (($line = fgets(STDIN)) !== false) {
    [$verb, $key, $second, $third] = [...explode(' ', rtrim($line, "\n")), '', ''];
    echo match ($verb) {
        'lock' => $lock->acquire($key, 600.0) ?? 'none',
        'unlock' => $lock->release($key, $second) ? 'yes' : 'no',
        'lease' => $limited->acquire($key) ?? 'none',
        'return' => $limited->release($key, $second) ? 'yes' : 'no',
        'count' => $count($key, $second, $third),
        'enter' => $enter($key, $second, $third),
    }, "\n";
}
