<?php

declare(strict_types=1);

namespace RateLimit\Tests\Events;

use PHPUnit\Framework\TestCase;
use Psr\EventDispatcher\EventDispatcherInterface;
use Psr\Log\AbstractLogger;
use RateLimit\Events\DecisionMade;
use RateLimit\Events\Psr14Dispatcher;
use RateLimit\Events\Psr3Logger;
use RateLimit\Events\StoreFailed;
use RateLimit\Limiter;
use RateLimit\ManualClock;
use RateLimit\Policy;
use RateLimit\Store;
use RateLimit\Tests\Support\RedisServer;

/**
 * Decisions and failures as events of PSR-14 and as lines of a PSR-3 log.
 */
final class EventsTest extends TestCase
{
    private const KEY = 'ada@example.org';

    public function testADispatcherIsGivenDecisionsAndFailures(): void
    {
        $server = new RedisServer();
        $limiter = new Limiter(Policy::parse('1/h', name: 'login'), $server->dsn(), onError: 'closed');
        $dispatcher = new class () implements EventDispatcherInterface {
            /** @var list<object> */
            public array $events = [];

            public function dispatch(object $event): object
            {
                $this->events[] = $event;

                return $event;
            }
        };
        (new Psr14Dispatcher($dispatcher))->listenTo($limiter);
        $decision = $limiter->allow(self::KEY);
        $server->stop();
        $limiter->allow('somebody else');
        self::assertSame(
            [DecisionMade::class, StoreFailed::class, DecisionMade::class],
            array_map(get_class(...), $dispatcher->events),
        );
        [$made, $failed, $ruled] = $dispatcher->events;
        self::assertEquals($decision, $made->decision);
        self::assertSame(['allow', 'login', 1], [$made->context['verb'], $made->context['policy'], $made->context['cost']]);
        self::assertContains($failed->error->kind, ['refused', 'closed']);
        self::assertSame('fail_closed', $ruled->decision->source);
    }

    public function testALogHasALevelForEachKindAndOneLineASecond(): void
    {
        $server = new RedisServer();
        [$logger, $clock] = [$this->logger(), new ManualClock()];
        $limiter = new Limiter(Policy::parse('1/h', name: 'login'), $server->dsn(), onError: 'open');
        (new Psr3Logger($logger, store: Store::memory(), clock: $clock))->listenTo($limiter);
        $limiter->allow(self::KEY);
        self::assertSame([], $logger->lines, 'an allowed call is no line');
        for ($call = 0; $call < 5; $call++) {
            $limiter->allow(self::KEY);
        }
        $clock->advance(1.0);
        $limiter->allow(self::KEY);
        $server->stop();
        for ($call = 0; $call < 3; $call++) {
            $limiter->allow('somebody else');
        }
        $clock->advance(1.0);
        $limiter->allow('somebody else');
        self::assertSame(
            [
                ['notice', 'policy login refuses allow of ', 0],
                ['notice', 'policy login refuses allow of ', 4],
                ['error', 'the store of policy login gave no usable answer: ', 0],
                ['warning', 'the store is away; the failure rule (fail_open) answers for policy login', 0],
                ['error', 'the store of policy login gave no usable answer: ', 2],
                ['warning', 'the store is away; the failure rule (fail_open) answers for policy login', 2],
            ],
            array_map(
                static fn (array $line): array => [
                    $line['level'],
                    preg_replace('/(refuses allow of |usable answer: ).*|(policy login) \(\d more like it\)$/s', '$1$2', $line['text']),
                    $line['context']['left_out'],
                ],
                $logger->lines,
            ),
        );
        self::assertStringEndsWith('(4 more like it)', $logger->lines[1]['text']);
        self::assertSame('deny_cache', $logger->lines[0]['context']['source']);
        self::assertStringNotContainsString('ada', print_r($logger->lines, true));
    }

    public function testAWorkerWritesOneLineThoughEachRequestHasALoggerOfItsOwn(): void
    {
        $store = 'memory:?max_keys=1025';
        $logger = $this->logger();
        for ($request = 0; $request < 10; $request++) {
            $limiter = new Limiter(Policy::parse('1/h', name: 'login'), Store::memory());
            (new Psr3Logger($logger, interval: 60.0, allowed: 'debug', store: $store))->listenTo($limiter);
            $limiter->allow(self::KEY);
        }
        self::assertSame(['debug'], array_column($logger->lines, 'level'));
    }

    public function testALoggerThatFailsAndALogWhoseStoreIsAwayChangeNothing(): void
    {
        $logger = new class () extends AbstractLogger {
            public function log($level, $message, array $context = []): void
            {
                throw new \RuntimeException('the disk is full');
            }
        };
        $limiter = new Limiter(Policy::parse('1/h', name: 'login'), Store::memory());
        (new Psr3Logger($logger, store: Store::memory()))->listenTo($limiter);
        $limiter->allow(self::KEY);
        self::assertFalse(@$limiter->allow(self::KEY)->allowed);

        $lines = $this->logger();
        $limiter = new Limiter(Policy::parse('1/h', name: 'login'), Store::memory());
        (new Psr3Logger($lines, store: 'redis://127.0.0.1:1'))->listenTo($limiter);
        $limiter->allow(self::KEY);
        $limiter->allow(self::KEY);
        self::assertSame(['notice'], array_column($lines->lines, 'level'));
    }

    /** A log that is kept, with the placeholders of its lines filled in. */
    private function logger(): AbstractLogger
    {
        return new class () extends AbstractLogger {
            /** @var list<array{level: string, text: string, context: array<string, mixed>}> */
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $values = array_filter($context, is_scalar(...));
                $names = array_map(static fn (string $name): string => '{' . $name . '}', array_keys($values));
                $text = strtr($message, array_combine($names, array_map(strval(...), $values)));
                $this->lines[] = ['level' => $level, 'text' => $text, 'context' => $context];
            }
        };
    }
}
