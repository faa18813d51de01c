--TEST--
Objects that live until the end, also in cycles and in destructors, do no harm at shutdown
--FILE--
<?php
use RateLimit\{Clock, Limiter, ManualClock, Policy, Store};

class Cycle implements Clock
{
    public ?Limiter $limiter = null;
    public array $decisions = [];

    public function now(): float
    {
        return 1_700_000_000.0;
    }

    public function __destruct()
    {
        echo 'left: ', $this->limiter->allow('k')->remaining, "\n";
    }
}

$cycle = new Cycle();
$cycle->limiter = new Limiter(Policy::tokenBucket(10, 1.0), Store::memory(), clock: $cycle);
$cycle->decisions[] = $cycle->limiter->allow('k');
$GLOBALS['kept'] = [new TokenBucket(), new ManualClock(), $cycle->limiter->allow('k')];
register_shutdown_function(static function (): void {
    echo 'shutdown: ', (new TokenBucket())->allow('k')['remaining'], "\n";
});
echo "end\n";
?>
--EXPECT--
end
shutdown: 9
left: 7
