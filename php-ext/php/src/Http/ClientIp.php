<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\Http\Message\ServerRequestInterface;
use RateLimit\ClientIp as Resolver;

/**
 * The address of the caller as the key, also behind proxies that are trusted; the network of an IPv6 address.
 *
 *     new RateLimitMiddleware($limiter, new ClientIp(['10.0.0.0/8'], header: 'x-forwarded-for'), $responses)
 *
 * `Forwarded` and `X-Forwarded-For` are read only when the peer is trusted, and from the right, where the nearest proxy
 * has written; what cannot be read ends the walk at the last proxy known.
 */
final class ClientIp implements KeyResolver
{
    private readonly Resolver $resolver;

    /**
     * @param array<string> $trustedProxies addresses, networks such as '10.0.0.0/8', and 'unix' for peers without an
     *     address, which come through a Unix socket; without any no header is read
     * @param int $ipv6Prefix how many leading bits of an IPv6 address make one caller, 1 to 128
     * @param string $header the header that the proxies write, `forwarded` or `x-forwarded-for`, and no other is looked
     *     at; `auto` is the one that is there, and where both are and do not agree neither is believed
     * @throws \RateLimit\Exception\InvalidArgument when one of them is something else
     */
    public function __construct(array $trustedProxies = [], int $ipv6Prefix = 64, string $header = 'auto')
    {
        $this->resolver = new Resolver($trustedProxies, $ipv6Prefix, $header);
    }

    /** The key; null when the peer has no address, and is not trusted or says nothing. */
    public function resolve(ServerRequestInterface $request): ?string
    {
        $peer = $request->getServerParams()['REMOTE_ADDR'] ?? null;

        return $this->resolver->resolve(
            is_string($peer) ? $peer : null,
            $request->getHeader('Forwarded'),
            $request->getHeader('X-Forwarded-For'),
        );
    }
}
