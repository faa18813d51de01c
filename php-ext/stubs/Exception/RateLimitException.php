<?php

namespace RateLimit\Exception;

/**
 * Carried by everything this extension throws, except \TypeError for arguments of a wrong type.
 */
interface RateLimitException extends \Throwable
{
}
