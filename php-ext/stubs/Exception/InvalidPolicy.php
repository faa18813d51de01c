<?php

namespace RateLimit\Exception;

/**
 * Numbers or a name that make no policy; the message names the argument and its value.
 */
class InvalidPolicy extends \InvalidArgumentException implements RateLimitException
{
}
