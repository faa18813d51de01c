<?php

declare(strict_types=1);

namespace RateLimit\Tests\Unit;

use PHPUnit\Framework\TestCase;
use RateLimit\Decision;
use RateLimit\Exception\InvalidArgument;
use RateLimit\Exception\InvalidCost;
use RateLimit\Exception\InvalidPolicy;
use RateLimit\Exception\InvalidStore;
use RateLimit\Exception\LimitExceeded;
use RateLimit\Exception\RateLimitException;
use RateLimit\Exception\StoreUnavailable;
use RateLimit\Exception\WaitTooLong;
use RateLimit\Limiter;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Wait;

final class ExceptionTest extends TestCase
{
    public function testAnExceptionSaysWhereItWasThrown(): void
    {
        try {
            $line = __LINE__ + 1;
            Policy::tokenBucket(0, 1.0);
            self::fail('it was taken');
        } catch (RateLimitException $refusal) {
            self::assertInstanceOf(InvalidPolicy::class, $refusal);
            self::assertSame([__FILE__, $line, 0, null], [
                $refusal->getFile(), $refusal->getLine(), $refusal->getCode(), $refusal->getPrevious(),
            ]);
            self::assertSame('tokenBucket', $refusal->getTrace()[0]['function']);
            self::assertSame(Policy::class, $refusal->getTrace()[0]['class']);
            self::assertStringContainsString('capacity must be', (string) $refusal);
        }
    }

    public function testAStoreThatIsAwayIsATypedErrorWithItsKind(): void
    {
        $limiter = new Limiter(Policy::tokenBucket(1, 1.0), 'redis://127.0.0.1:' . Wait::freePort());
        try {
            $line = __LINE__ + 1;
            $limiter->allow('k');
            self::fail('it was allowed');
        } catch (StoreUnavailable $failure) {
            self::assertInstanceOf(\RuntimeException::class, $failure);
            self::assertInstanceOf(RateLimitException::class, $failure);
            self::assertSame(['refused', __FILE__, $line], [$failure->kind, $failure->getFile(), $failure->getLine()]);
            self::assertSame('allow', $failure->getTrace()[0]['function']);
            self::assertStringContainsString('127.0.0.1', $failure->getMessage());
        }
    }

    /**
     * @dataProvider parents
     */
    public function testApplicationsMayMakeAndExtendThem(string $class, string $parent): void
    {
        $previous = new \Exception('cause');
        $exception = new $class('words', 7, $previous);
        self::assertSame(['words', 7, $previous, __FILE__], [
            $exception->getMessage(), $exception->getCode(), $exception->getPrevious(), $exception->getFile(),
        ]);
        self::assertInstanceOf($parent, $exception);
        self::assertInstanceOf(RateLimitException::class, $exception);
        self::assertFalse((new \ReflectionClass($class))->isFinal());
    }

    public static function parents(): iterable
    {
        foreach ([InvalidArgument::class, InvalidPolicy::class, InvalidCost::class, InvalidStore::class] as $class) {
            yield $class => [$class, \InvalidArgumentException::class];
        }
        foreach ([StoreUnavailable::class, WaitTooLong::class] as $class) {
            yield $class => [$class, \RuntimeException::class];
        }
    }

    public function testLimitExceededCarriesTheDecision(): void
    {
        $decision = $this->refusal();
        $exception = new LimitExceeded($decision);
        self::assertSame($decision, $exception->decision);
        self::assertInstanceOf(\RuntimeException::class, $exception);
        self::assertInstanceOf(RateLimitException::class, $exception);
        self::assertMatchesRegularExpression(
            '/^the limit 1 of policy "login" is used up; retry after 3\d{3}(\.\d+)? s$/',
            $exception->getMessage(),
        );
        self::assertSame(__FILE__, $exception->getFile());
        $this->expectException(\Error::class);
        $this->expectExceptionMessage('Cannot modify readonly property RateLimit\Exception\LimitExceeded::$decision');
        $exception->decision = $decision;
    }

    public function testLimitExceededTakesWhatOtherExceptionsTake(): void
    {
        $previous = new \Exception('cause');
        $exception = new LimitExceeded($this->refusal(), previous: $previous, code: 429, message: 'slow down');
        self::assertSame(['slow down', 429, $previous], [
            $exception->getMessage(), $exception->getCode(), $exception->getPrevious(),
        ]);
        $child = new class ($this->refusal()) extends LimitExceeded {
        };
        self::assertFalse($child->decision->allowed);
        foreach ([[], [null], ['decision'], [$this->refusal(), []], [$this->refusal(), '', 0, 'cause']] as $arguments) {
            try {
                new LimitExceeded(...$arguments);
                self::fail('it was taken');
            } catch (\TypeError $error) {
                self::assertNotSame('', $error->getMessage());
            }
        }
    }

    private function refusal(): Decision
    {
        $limiter = new Limiter(Policy::tokenBucket(1, 1.0, 3600.0, name: 'login'), Store::memory());
        $limiter->allow('k');
        return $limiter->allow('k');
    }
}
