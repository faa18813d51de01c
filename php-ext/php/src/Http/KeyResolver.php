<?php

declare(strict_types=1);

namespace RateLimit\Http;

use Psr\Http\Message\ServerRequestInterface;

/** Says whose budget a request spends. */
interface KeyResolver
{
    /**
     * The key of the caller: any bytes that are the same for every request of one caller and for nobody else's.
     *
     * An array gives each policy its own key, by the policy's name. Null says that this request names no caller;
     * never return a constant such as "unknown" instead, since all such callers would then share one budget.
     *
     * @return string|array<string, string>|null
     */
    public function resolve(ServerRequestInterface $request): string|array|null;
}
