<?php

namespace RateLimit\Outbound;

/**
 * Keeps one client of an API under that API's limits. Sends nothing and never sleeps.
 *
 * A host asks {@see before()}, sleeps and asks {@see resume()} as often as it is told to wait, sends, and tells
 * {@see after()}. The library's `RateLimit\Guzzle\RateLimitMiddleware` does that. All times are in seconds.
 *
 * ```php
 * $governor = new Governor('github', 'redis://127.0.0.1:6379');
 * $answer = $governor->before('GET', 'https://api.github.com/user', authorization: "Bearer {$token}");
 * ```
 */
final class Governor
{
    /**
     * Asks for a request to be sent.
     *
     * @param string $method The method.
     * @param string $url The absolute URL.
     * @param null|string $authorization The value of that header, if there is one: whose budget it is. Only a fingerprint is kept.
     * @param null|string $identity Whose budget it is, in place of what `$authorization` says.
     * @param bool $enabled `false` sends it as if there were no governor.
     * @param null|string $bucket What it is counted under, in place of what its route says.
     * @param null|float $maxDelay In place of the governor's; INF waits as long as it takes.
     * @param null|int $maxRetries In place of the governor's.
     *
     * @return Go|Wait|Refuse
     *
     * @throws \RateLimit\Exception\InvalidArgument If the URL is not absolute.
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer and `onError` is `throw`.
     */
    public function before(
        string $method,
        string $url,
        ?string $authorization = null,
        bool $enabled = true,
        ?string $bucket = null,
        ?string $identity = null,
        ?float $maxDelay = null,
        ?int $maxRetries = null,
    ): mixed {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Asks again, after the wait that an answer asked for.
     *
     * @param Ticket $ticket The one of that answer.
     *
     * @return Go|Wait|Refuse
     *
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer and `onError` is `throw`.
     */
    public function resume(mixed $ticket): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Tells what came back.
     *
     * @param Ticket $ticket The one of {@see Go}.
     * @param int $status The status.
     * @param array $headers As PSR-7 gives them, `[name => value or values]`, or a list of pairs.
     * @param null|string $body The body, where {@see readsBody()} says so.
     *
     * @return Returned|Retry|Fail
     *
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer and `onError` is `throw`.
     */
    public function after(mixed $ticket, int $status, array $headers, ?string $body = null): mixed
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Tells that a request failed before any response came, so that others need not wait for what it would have told.
     *
     * @param Ticket $ticket The one of {@see Go}.
     *
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer and `onError` is `throw`.
     */
    public function abandon(mixed $ticket): void
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What is known of the bucket that a request would be taken from; null when nothing is.
     *
     * @param string $method The method.
     * @param string $url The absolute URL.
     * @param null|string $authorization The value of that header, if there is one: whose budget it is. Only a fingerprint is kept.
     * @param null|string $identity Whose budget it is, in place of what `$authorization` says.
     * @param null|string $bucket What it is counted under.
     *
     * @throws \RateLimit\Exception\InvalidArgument If the URL is not absolute.
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer.
     */
    public function state(
        string $method,
        string $url,
        ?string $authorization = null,
        ?string $identity = null,
        ?string $bucket = null,
    ): ?BucketState {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that apply
     * to it.
     *
     * @param string $method The method.
     * @param string $url The absolute URL.
     * @param null|string $authorization The value of that header, if there is one: whose budget it is. Only a fingerprint is kept.
     * @param null|string $identity Whose budget it is, in place of what `$authorization` says.
     * @param null|string $bucket What it is counted under.
     *
     * @throws \RateLimit\Exception\InvalidArgument If the URL is not absolute.
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer.
     */
    public function forget(
        string $method,
        string $url,
        ?string $authorization = null,
        ?string $identity = null,
        ?string $bucket = null,
    ): void {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What is left of the limit on everything, for the identity and host of a request; null without such a limit.
     *
     * @param string $method The method.
     * @param string $url The absolute URL.
     * @param null|string $authorization The value of that header, if there is one: whose budget it is. Only a fingerprint is kept.
     * @param null|string $identity Whose budget it is, in place of what `$authorization` says.
     *
     * @throws \RateLimit\Exception\InvalidArgument If the URL is not absolute.
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer.
     */
    public function globalBudget(
        string $method,
        string $url,
        ?string $authorization = null,
        ?string $identity = null,
    ): ?BucketState {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What is left of the limit on invalid requests to the host of a request; null without such a limit.
     *
     * @param string $method The method.
     * @param string $url The absolute URL.
     * @param null|string $authorization The value of that header, if there is one: whose budget it is. Only a fingerprint is kept.
     * @param null|string $identity Whose budget it is, in place of what `$authorization` says.
     *
     * @throws \RateLimit\Exception\InvalidArgument If the URL is not absolute.
     * @throws \RateLimit\Exception\StoreUnavailable If the store gives no answer.
     */
    public function invalidRequestBudget(
        string $method,
        string $url,
        ?string $authorization = null,
        ?string $identity = null,
    ): ?BucketState {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /** Whether a response of this status has to be told with its body, since only that says whether it was refused. */
    public function readsBody(int $status): bool
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /** The name of the API it was made for. */
    public function preset(): string
    {
        throw new \LogicException('the extension ratelimit is not loaded');
    }

    /**
     * What is not given is taken from the preset.
     *
     * @param string $preset The name of an API (`github`, `discord`, `openai` …), or `default`, `conservative` or
     *     `aggressive` for any that speaks one of the common families of headers, or both as in `github+conservative`.
     * @param mixed $store Where what is learnt is kept; as for {@see \RateLimit\Limiter}.
     * @param null|list<Limit> $limits Limits of one's own.
     * @param null|GlobalLimit $globalLimit A limit on everything that one identity sends.
     * @param null|InvalidRequestLimit $invalidRequestLimit A limit on requests that the API calls invalid.
     * @param null|int $maxRetries How often a request is sent again, 0 to 100.
     * @param null|float $safetyBuffer Waited longer than until a reset, 0 to 3600.
     * @param null|float $jitter Every wait is made longer by a random part of itself, up to this one, 0 to 1.
     * @param null|float $maxDelay Longer than this nothing waits.
     * @param null|list<int> $retryStatusCodes Statuses that are sent again beside those that the preset knows.
     * @param null|bool $throwOnRateLimit Whether a refusal that outlasts the retries is a {@see Fail}, or returned.
     * @param null|\RateLimit\Clock $clock For tests: instead of the store's own clock, and for instants in headers.
     * @param null|float $maxStoreTtl What is learnt is kept no longer, from a second to a year.
     * @param null|string $secret The secret of the fingerprints under which identities are stored.
     * @param null|array<string, string> $headers Header names in place of the preset's: `limit`, `remaining`, `reset`,
     *     `retryAfter`, `bucket`, `scope`.
     * @param null|callable(int, int, ?Observation): ?float $strategy Is told of a refusal the status, how often the request
     *     has been sent again, and what the response says; gives seconds until the next try, or null for the usual wait.
     * @param null|string $onError What happens while the store gives no answer: `local`, the default, has the store of this
     *     host take its place, `open` lets requests go, `closed` holds them back, `throw` throws.
     * @param null|callable(string, string): ?string $resolver Is told the method and the URL of a request; gives what it is
     *     counted under, or null to leave that to its route.
     *
     * @throws \RateLimit\Exception\InvalidArgument If an option is out of range.
     * @throws \RateLimit\Exception\InvalidStore If `$store` is no store.
     */
    public function __construct(
        string $preset = 'default',
        mixed $store = null,
        ?array $limits = null,
        mixed $globalLimit = null,
        mixed $invalidRequestLimit = null,
        ?int $maxRetries = null,
        ?float $safetyBuffer = null,
        ?float $jitter = null,
        ?float $maxDelay = null,
        mixed $retryStatusCodes = null,
        ?bool $throwOnRateLimit = null,
        ?\RateLimit\Clock $clock = null,
        ?float $maxStoreTtl = null,
        ?string $secret = null,
        ?array $headers = null,
        mixed $strategy = null,
        ?string $onError = null,
        mixed $resolver = null,
    ) {
        throw new \LogicException('the extension ratelimit is not loaded');
    }
}
