<?php

declare(strict_types=1);

namespace RateLimit\Http;

/** A request does not say who is calling, so nobody could be limited. */
final class Unidentified extends \RuntimeException
{
    public function __construct()
    {
        parent::__construct('The key of a request was null or empty, so nobody could be limited.');
    }
}
