<?php

namespace RateLimit\Exception;

/**
 * A cost that is no integer between 1 and 2147483647. The store has not been asked.
 */
class InvalidCost extends \InvalidArgumentException implements RateLimitException
{
}
