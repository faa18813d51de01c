<?php

/**
 * The signatures of psr/http-message 2.0 for what the middleware calls methods of, since Debian has 1.0, which
 * declares no types. Loaded first, they take the place of Debian's.
 */

declare(strict_types=1);

namespace Psr\Http\Message;

interface StreamInterface
{
    public function __toString(): string;
    public function close(): void;
    /** @return resource|null */
    public function detach();
    public function getSize(): ?int;
    public function tell(): int;
    public function eof(): bool;
    public function isSeekable(): bool;
    public function seek(int $offset, int $whence = SEEK_SET): void;
    public function rewind(): void;
    public function isWritable(): bool;
    public function write(string $string): int;
    public function isReadable(): bool;
    public function read(int $length): string;
    public function getContents(): string;
    /** @return mixed */
    public function getMetadata(?string $key = null);
}

interface MessageInterface
{
    public function getProtocolVersion(): string;
    public function withProtocolVersion(string $version): MessageInterface;
    public function getHeaders(): array;
    public function hasHeader(string $name): bool;
    public function getHeader(string $name): array;
    public function getHeaderLine(string $name): string;
    /** @param string|string[] $value */
    public function withHeader(string $name, $value): MessageInterface;
    /** @param string|string[] $value */
    public function withAddedHeader(string $name, $value): MessageInterface;
    public function withoutHeader(string $name): MessageInterface;
    public function getBody(): StreamInterface;
    public function withBody(StreamInterface $body): MessageInterface;
}

interface ResponseInterface extends MessageInterface
{
    public function getStatusCode(): int;
    public function withStatus(int $code, string $reasonPhrase = ''): ResponseInterface;
    public function getReasonPhrase(): string;
}
