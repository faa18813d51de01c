<?php

declare(strict_types=1);

namespace RateLimit\Symfony;

use RateLimit\ClientIp;
use Symfony\Component\HttpFoundation\RateLimiter\AbstractRequestRateLimiter;
use Symfony\Component\HttpFoundation\Request;

/**
 * What `security.firewalls.NAME.login_throttling.limiter` asks: a limit for an address, and a lower one for a user name
 * from an address.
 */
final class LoginRateLimiter extends AbstractRequestRateLimiter
{
    /** What Symfony calls the attribute in which its firewall leaves the user name. */
    private const LAST_USERNAME = '_security.last_username';

    /**
     * @param FactoryInterface $global of the limit for an address
     * @param FactoryInterface $local of the limit for a user name from an address
     * @param ?ClientIp $clientIp who is behind which proxies; without it it is what Symfony's trusted proxies say, a whole
     *     IPv6 address at a time
     */
    public function __construct(
        private readonly FactoryInterface $global,
        private readonly FactoryInterface $local,
        private readonly ?ClientIp $clientIp = null,
    ) {
    }

    protected function getLimiters(Request $request): array
    {
        $name = (string) $request->attributes->get(self::LAST_USERNAME, '');
        $name = mb_check_encoding($name, 'UTF-8') ? mb_strtolower($name, 'UTF-8') : strtolower($name);
        $address = $this->address($request);

        return [$this->global->create($address), $this->local->create("$name-$address")];
    }

    private function address(Request $request): string
    {
        if ($this->clientIp === null) {
            return (string) $request->getClientIp();
        }

        return (string) $this->clientIp->resolve(
            $request->server->get('REMOTE_ADDR'),
            $request->headers->all('Forwarded'),
            $request->headers->all('X-Forwarded-For'),
        );
    }
}
