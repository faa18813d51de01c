<?php

declare(strict_types=1);

namespace RateLimit\Guzzle;

use GuzzleHttp\Exception\GuzzleException;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;
use RateLimit\Exception\RateLimitException;

/**
 * A remote API refused a request, and sending it again is not allowed or would take too long.
 */
class RateLimitExceeded extends \RuntimeException implements GuzzleException, RateLimitException
{
    /**
     * @param float $retryAfter When it might pass, in seconds.
     * @param bool  $global     Whether everything of this identity is refused.
     */
    public function __construct(
        string $message,
        private readonly RequestInterface $request,
        private readonly ?ResponseInterface $response,
        private readonly float $retryAfter,
        private readonly bool $global,
    ) {
        parent::__construct($message, $response?->getStatusCode() ?? 0);
    }

    /** The request that was given up. */
    public function getRequest(): RequestInterface
    {
        return $this->request;
    }

    /** The last response; null when nothing was sent. */
    public function getResponse(): ?ResponseInterface
    {
        return $this->response;
    }

    /** When it might pass, in seconds. */
    public function getRetryAfter(): float
    {
        return $this->retryAfter;
    }

    /** Whether everything of this identity is refused. */
    public function isGlobal(): bool
    {
        return $this->global;
    }
}
