<?php

namespace RateLimit\Exception;

/**
 * A DSN with a fault, or a value that names no store. The message repeats no password.
 */
class InvalidStore extends \InvalidArgumentException implements RateLimitException
{
}
