<?php

namespace RateLimit;

/**
 * Finds the address of the caller behind proxies that are trusted.
 *
 * A header is read only when the peer is trusted, and from the right, where the nearest proxy has written: the first
 * address that is no trusted proxy's is the caller's. What cannot be read ends the walk at the last proxy known, so a
 * caller can never say who he is.
 *
 *     $clientIp = new ClientIp(['10.0.0.0/8']);
 *     $key = $clientIp->resolve($_SERVER['REMOTE_ADDR'], xForwardedFor: $_SERVER['HTTP_X_FORWARDED_FOR'] ?? '');
 */
final class ClientIp
{
    /**
     * @param ?array<string> $trustedProxies addresses, networks such as '10.0.0.0/8', and 'unix' for peers without an
     *     address, which come through a Unix socket; without any no header is read
     * @param int $ipv6Prefix how many leading bits of an IPv6 address make one caller, 1 to 128
     * @param 'auto'|'forwarded'|'x-forwarded-for' $header the header that the proxies write, and no other is looked at;
     *     'auto' is the one that is there, and where both are and do not agree neither is believed
     *
     * @throws Exception\InvalidArgument If one of them is something else.
     */
    public function __construct(?array $trustedProxies = null, int $ipv6Prefix = 64, string $header = 'auto')
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Who a request comes from, as a key: an IPv4 address, or the network of an IPv6 address such as
     * '2001:db8:0:1::/64'. Null where nobody can tell: the peer has no address, and is not trusted or says nothing.
     *
     * @param ?string $peer the other end of the connection, with or without a port
     * @param string|array<string> $forwarded the lines of `Forwarded`, in the order received
     * @param string|array<string> $xForwardedFor the lines of `X-Forwarded-For`, in the order received
     */
    public function resolve(
        ?string $peer = null,
        string|array $forwarded = '',
        string|array $xForwardedFor = '',
    ): ?string {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The key of all requests that do not say who is calling, where such requests are to share one budget. It is none
     * that a person would write.
     */
    public static function sharedKey(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The answer to a request that does not say who is calling, where such requests are rejected: 403.
     *
     * @param 'problem'|'json'|'none' $body as for {@see Decision::refusal()}
     *
     * @return array{status: int, headers: array<string, string>, body: string}
     *
     * @throws Exception\InvalidArgument If there is no such body.
     */
    public static function unidentified(string $body = 'problem'): array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
