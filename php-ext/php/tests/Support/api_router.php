<?php

// Gives the next answer of the script in API_FOLDER, and writes the request down.

declare(strict_types=1);

$folder = getenv('API_FOLDER');
$number = count(array_filter(explode("\n", file_get_contents("$folder/requests"))));
$answers = json_decode(file_get_contents("$folder/answers.json"), true);
$request = ['method' => $_SERVER['REQUEST_METHOD'], 'path' => $_SERVER['REQUEST_URI'], 'body' => file_get_contents('php://input')];
file_put_contents("$folder/requests", json_encode($request) . "\n", FILE_APPEND);
[$status, $headers, $body] = $answers[min($number, count($answers) - 1)];
http_response_code($status);
header_remove('Date');
header('X-Powered-By:');
foreach ($headers as $name => $value) {
    header("$name: $value");
}
echo $body;
