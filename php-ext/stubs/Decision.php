<?php

namespace RateLimit;

/**
 * The answer to one call. Made by a {@see Limiter}, never by users.
 *
 * A decision is a snapshot: by the time you read it another process may have spent what remained. Schedule by
 * `retryAfter`, not by `remaining`.
 *
 * Every property can also be read as an array member: `$decision['allowed']`. As JSON it is an object of all of them,
 * with `retryAfter` null where it is INF.
 *
 * @implements \ArrayAccess<string, bool|int|float|string>
 */
final class Decision implements \ArrayAccess, \JsonSerializable
{
    /** Whether the call may go ahead. */
    public readonly bool $allowed;

    /** The largest cost that can ever pass. */
    public readonly int $limit;

    /** The largest cost that would pass now, 0 to `limit`. */
    public readonly int $remaining;

    /** Seconds until the same call passes if nobody else calls: 0.0 when allowed, INF when it never can. */
    public readonly float $retryAfter;

    /** Seconds until the budget is whole again. */
    public readonly float $resetAfter;

    /** Seconds until the caller may start, after {@see Limiter::reserve()} or {@see Limiter::wait()}; else 0.0. */
    public readonly float $delay;

    /** Name of the policy that ruled: the one that refuses longest, else the one with the least left of its limit. */
    public readonly string $policy;

    /** Where the answer came from: store, local, fail_open or fail_closed. */
    public readonly string $source;

    /** Whether the store could not be asked and the failure rule answered instead. */
    public readonly bool $degraded;

    private function __construct()
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * One decision per policy, in the order given to the limiter; of a refusal some may be allowed, and took nothing.
     *
     * @return list<Decision>
     */
    public function each(): array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Header fields for a response. A refusal always has a `Retry-After`, in whole seconds rounded up, unless the call
     * can never pass.
     *
     * With several policies 'ietf' tells of all of them in the order given, 'draft-7' lists them all, and the other
     * numbers are those of the policy that ruled. `each()[1]->headers()` tells of one alone.
     *
     * @param 'ietf'|'draft-7'|'draft-3'|'x-ratelimit'|'x-ratelimit-epoch'|'none' $style the family;
     *     'x-ratelimit-epoch' gives the reset in seconds since 1970, 'none' is `Retry-After` alone
     * @param ?string $partitionKey whose budget it is, any bytes, for 'ietf'; no raw identity, since whoever sees the
     *     response can read it
     * @param ?string $quotaUnit what is counted, such as 'content-bytes', for 'ietf'; without it requests
     *
     * @return array<string, string> name => value
     *
     * @throws Exception\InvalidArgument If there is no such family, or the unit is not printable ASCII.
     */
    public function headers(string $style = 'ietf', ?string $partitionKey = null, ?string $quotaUnit = null): array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Problem details (RFC 9457) of a refusal, for a body of the type `application/problem+json`; null where the call
     * was allowed.
     *
     * @param 'quota-exceeded'|'temporary-reduced-capacity'|'abnormal-usage-detected'|null $type why; without it, and
     *     where the failure rule refuses since the store is away, it goes by the decision
     *
     * @return ?array{type: string, title: string, status: int, detail: string, violated-policies?: list<string>}
     *
     * @throws Exception\InvalidArgument If there is no such type.
     */
    public function problem(?string $type = null): ?array
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The whole answer to a call that was refused, for whatever makes responses; null where it was allowed. The headers
     * have `Cache-Control: no-store` and the `Content-Type` of the body.
     *
     * @param string $style as for {@see headers()}
     * @param 'problem'|'json'|'none' $body {@see problem()} as JSON; `{"error":"Too many requests","retry_after":60}`;
     *     nothing
     * @param ?string $type as for {@see problem()}
     * @param ?string $partitionKey as for {@see headers()}
     * @param ?string $quotaUnit as for {@see headers()}
     *
     * @return ?array{status: int, headers: array<string, string>, body: string}
     *
     * @throws Exception\InvalidArgument If one of them is not known.
     */
    public function refusal(
        string $style = 'ietf',
        string $body = 'problem',
        ?string $type = null,
        ?string $partitionKey = null,
        ?string $quotaUnit = null,
    ): ?array {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Whether there is a property of that name.
     */
    public function offsetExists(mixed $offset): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * The property of that name.
     *
     * @throws Exception\InvalidArgument If there is none: a misspelled name must not read as "refused".
     */
    public function offsetGet(mixed $offset): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * @throws \Error Always: a decision is read only.
     */
    public function offsetSet(mixed $offset, mixed $value): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * @throws \Error Always: a decision is read only.
     */
    public function offsetUnset(mixed $offset): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * All properties; `retryAfter` is null where it is INF.
     *
     * @return array<string, null|bool|int|float|string>
     */
    public function jsonSerialize(): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
