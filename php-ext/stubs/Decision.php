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
     * @param 'ietf'|'draft-7'|'draft-3'|'x-ratelimit'|'none' $style the family; 'none' is `Retry-After` alone
     *
     * @return array<string, string> name => value
     *
     * @throws Exception\InvalidArgument If there is no such family.
     */
    public function headers(string $style = 'ietf'): array
    {
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
