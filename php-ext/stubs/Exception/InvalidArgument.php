<?php

namespace RateLimit\Exception;

/**
 * An argument out of range that belongs to none of the more specific classes: `onError`, `share`, `lease`, `style`, `maxWait`, a
 * token, keys that do not fit the policies, a clock's instant.
 */
class InvalidArgument extends \InvalidArgumentException implements RateLimitException
{
}
