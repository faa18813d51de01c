<?php

namespace RateLimit\Exception;

/**
 * The wait needed is longer than the caller is ready to wait.
 */
class WaitTooLong extends \RuntimeException implements RateLimitException
{
}
