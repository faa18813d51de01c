<?php

namespace RateLimit\Exception;

/**
 * The wait needed is longer than the caller is ready to wait, or no wait would help. Nothing has been taken.
 */
class WaitTooLong extends \RuntimeException implements RateLimitException
{
}
