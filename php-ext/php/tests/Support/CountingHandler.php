<?php

declare(strict_types=1);

namespace RateLimit\Tests\Support;

use Nyholm\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** An application: says hello to the path, and counts how often it was reached. */
final class CountingHandler implements RequestHandlerInterface
{
    public int $calls = 0;

    /** @param array<string, string> $headers of its responses */
    public function __construct(private readonly array $headers = [])
    {
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $this->calls += 1;

        return new Response(200, $this->headers, "hello from {$request->getUri()->getPath()}");
    }
}
