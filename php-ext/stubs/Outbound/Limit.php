<?php

namespace RateLimit\Outbound;

/**
 * A limit of one's own on requests, by any policy.
 *
 * ```php
 * new Limit(Policy::slidingWindowLog(10, 1.0), scope: 'host', appliesTo: '/v2/*');
 * ```
 */
final class Limit
{
    /** The policy's name. */
    public readonly string $name;

    /**
     * @param \RateLimit\Policy $policy How it is counted.
     * @param 'identity'|'host'|'route'|'everything' $scope Whose requests one budget counts.
     * @param null|string|list<string>|callable(string, string): bool $appliesTo A pattern for paths, in which `*` stands for
     *     anything, a list of them, or a function of the method and the URL; null is all requests.
     * @param null|string $name In place of the policy's own.
     *
     * @throws \RateLimit\Exception\InvalidArgument If the scope is none.
     */
    public function __construct(
        \RateLimit\Policy $policy,
        string $scope = 'identity',
        mixed $appliesTo = null,
        ?string $name = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
