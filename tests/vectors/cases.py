"""The histories that every language and every store is asked."""

from oracle import case, several


def token_bucket(capacity, refill_rate, refill_interval=1.0, continuous=False):
    numbers = {"capacity": capacity, "refill_rate": float(refill_rate), "refill_interval": float(refill_interval)}
    return {"algorithm": "token_bucket", **numbers, "continuous": continuous}


def leaky_bucket(capacity, leak_rate):
    return {"algorithm": "leaky_bucket", "capacity": capacity, "leak_rate": float(leak_rate)}


def gcra(limit, period, burst=None):
    return {"algorithm": "gcra", "limit": limit, "period": float(period), "burst": burst}


def fixed_window(limit, window, aligned=False):
    return {"algorithm": "fixed_window", "limit": limit, "window": float(window), "aligned": aligned}


def sliding_window_log(limit, window):
    return {"algorithm": "sliding_window_log", "limit": limit, "window": float(window)}


def sliding_window_counter(limit, window):
    return {"algorithm": "sliding_window_counter", "limit": limit, "window": float(window)}


def hits(at, count):
    return [(at, 1)] * count


def token_bucket_cases():
    policy = token_bucket
    yield case("a fresh bucket is full and gives its tokens one by one", policy(3, 1), *hits(0, 4))
    yield case(
        "polling faster than the interval does not starve the bucket",
        policy(5, 1), *hits(0, 5), *[(0.5 + 0.4 * n, 1) for n in range(25)],
    )
    yield case("less than one per second: 1 per 10 s", policy(1, 1, 10), (0, 1), (5, 1), (10, 1))
    yield case("less than one per second: 0.5 per 1 s", policy(1, 0.5), (0, 1), (1, 1), (2, 1))
    yield case("a tenth of a token is exactly a tenth", policy(1, 0.1), *[(n, 1) for n in range(22)])
    yield case("nothing arrives within an interval", policy(10, 4, 2), (0, 10), (1.999999, 1), (2, 4), (2, 1))
    yield case("a full bucket forgets its phase", policy(2, 1, 10), (0, 1), (10, 1), (14, 1), (19.999999, 1), (20, 1))
    yield case("a bucket left alone for long starts afresh", policy(2, 1, 10), (0, 2), (1005, 1), (1014, 2), (1015, 2))
    yield case("more per interval than the capacity fills the bucket", policy(5, 100, 1), (0, 5), (0.5, 1), (1, 5), (1, 1))
    yield case("very high rates still limit", policy(20, 2000), *hits(0, 100))
    yield case("very high continuous rates still limit", policy(20, 2000, 1, True), *hits(0, 21), (0.0004, 1), (0.0005, 1), (0.0005, 1))
    yield case(
        "a cost above what is left takes nothing",
        policy(5, 1, 10), *hits(0, 3), (0, 5), (0, 2), *[(0, 5)] * 3, (30, 4), (30, 3),
    )
    yield case(
        "a cost above the capacity never passes and takes nothing",
        policy(5, 1), (0, 6), (0, 2**31 - 1), (0, 200_000_000), (0, 5), (0, 6), (5, 5),
    )
    yield case("a look takes nothing", policy(2, 1), (0, 1, "peek"), (0, 2, "peek"), (0, 3, "peek"), (0, 2), (0, 1, "peek"), (1, 1, "peek"), (1, 1))
    yield case("a reset makes the budget whole", policy(2, 1, 60), (0, 2), (1, 1), (1, "reset"), (1, 2), (1, 1))
    yield case("the largest capacity", policy(2**31 - 1, 1), (0, 2**31 - 1), (0, 1), (1, 1), (1, 1))
    yield case("a wait of 25 days", policy(1, 1, 2_160_000), (0, 1), (0, 1), (2_159_999.999999, 1), (2_160_000, 1))
    yield case("a wait above 2^31 ms", policy(1, 1, 2_500_000.001), (0, 1), (0, 1), (2_500_000, 1), (2_500_000.001, 1))
    yield case("an interval of a fraction of a second", policy(2, 1, 0.75), (0, 2), (0.749999, 1), (0.75, 1), (0.75, 1))
    yield case("an interval of 600.001 s", policy(2, 2, 600.001), (0, 2), (600, 1), (600.001, 2), (600.001, 1))
    yield case("an interval of one microsecond", policy(3, 1, 0.000001), (0, 3), (0, 1), (0.000001, 1), (0.000002, 2), (0.000003, 2))
    yield case("continuous: a token every tenth of a second", policy(10, 10, 1, True), (0, 10), (0.05, 1), (0.099999, 1), (0.1, 1), (0.25, 1), (0.25, 1), (1.25, 10))
    yield case("continuous: thirds stay exact", policy(1, 1, 3, True), (0, 1), (1, 1), (2.999999, 1), (3, 1), (6, 1), (8.999999, 1), (9, 1))
    yield case("continuous: 7 per minute", policy(7, 7, 60, True), *[(n * 4.285714, 3) for n in range(12)])
    yield case("continuous: one per day", policy(2, 1, 86_400, True), (0, 2), (43_200, 1), (86_399.999999, 1), (86_400, 1), (86_400, 2))
    yield case(
        "continuous: a tick of a millisecond where a microsecond would not fit",
        policy(15_000, 7, 950_400, True), (0, 15_000), (135_771.428, 1), (135_771.4285, 1), (135_771.429, 1), (950_400.0005, 7), (950_400.5, 6),
        tick_us=1000,
    )
    yield case("a lowered capacity holds at once", policy(1000, 5, 900), (0, 1), policy(10, 5, 900), *hits(0, 11))
    yield case("a raised capacity grants nothing for free", policy(10, 5, 900), *hits(0, 6), policy(1000, 5, 900), (0, 1), (900, 1))
    yield case(
        "what nobody used under a raised capacity is forgotten when it was to be whole",
        policy(1, 1), (0, 1), policy(11, 1), (0, 2), (0.5, 1, "peek"), (0.999999, 2), (1, 2),
    )
    yield case(
        "tokens stay tokens when the rate changes",
        policy(10, 1, 1, True), (0, 6), policy(10, 3, 7, True), (0, 1), (1, 1), policy(10, 0.3, 1), (1, 1), (2, 1), (8, 1),
    )
    yield case(
        "from continuous to intervals and back the part of a token is kept",
        policy(5, 1, 1, True), (0, 5), (0.5, 1), policy(5, 0.25, 1, True), (1.5, 1), (1.5, 1), policy(5, 1, 1, True), (2, 1), (3, 1),
    )
    yield case(
        "a clock that steps back gains nobody anything and locks nobody out",
        policy(2, 1), *hits(600, 2), (0, 1), (0.5, 1), (1, 1), (1, 1), (2, 1), (600, 2), (600, 1),
    )
    yield case(
        "a look after a step back promises a wait that is enough",
        policy(1, 1, 10), (600, 1), (0, 1, "peek"), (9.999999, 1), (10, 1),
    )
    yield case(
        "reservations go into debt and start when their tokens arrive",
        policy(2, 1), *[(0, 1, "reserve", None)] * 5, (0, 1), (0.5, 2, "reserve", None), (3, 1, "peek"), (6, 1, "peek"), (7, 1),
    )
    yield case(
        "a reservation that would wait too long takes nothing",
        policy(2, 1), (0, 2), (0, 1, "reserve", 0.999999), (0, 1, "reserve", 1), (0, 1, "reserve", 1), (0, 3, "reserve", None), (0, 1, "peek"),
    )
    yield case("a reservation of what is there starts at once", policy(5, 1), (0, 3, "reserve", 0), (0, 2, "reserve", 0), (0, 1, "reserve", 0))
    yield case(
        "a refund gives back what was taken and never more than the capacity",
        policy(5, 1, 10), (0, 4), (0, 2, "refund"), (0, 1, "peek"), (0, 100, "refund"), (0, 1, "peek"), (0, 5), (0, 1),
    )
    yield case("a refund of nothing taken changes nothing", policy(5, 1), (0, 3, "refund"), (0, 5), (0, 1))


def leaky_bucket_cases():
    yield case("a fresh bucket takes its capacity at once and leaks it", leaky_bucket(3, 1), *hits(0, 4), (0.5, 1), (1, 1), (1, 1), (2.999999, 2), (3, 2))
    yield case("a wait below a second is not cut to nothing", leaky_bucket(1, 1), (0, 1), (0.6, 1), (1, 1))
    yield case("three per second: the wait is rounded up and enough", leaky_bucket(1, 3), (0, 1), (0, 1), (0.333333, 1), (0.333334, 1), (0.333334, 1), (0.666667, 1), (0.666668, 1))
    yield case("a fractional leak", leaky_bucket(2, 0.1), (0, 2), (9.999999, 1), (10, 1), (15, 1), (30, 2))
    yield case("costs and what is above the capacity", leaky_bucket(10, 2), (0, 7), (0, 4), (0, 3), (0, 11), (2, 4), (2, 1), (5, 10))
    yield case(
        "reservations queue up and start evenly spaced",
        leaky_bucket(3, 1), *[(0, 1, "reserve", None)] * 4, (0.5, 1, "reserve", None), (1, 1, "reserve", None), (1, 1, "reserve", None), (1, 1),
    )
    yield case("a queue that would make one wait too long gives no place", leaky_bucket(5, 1), (0, 2, "reserve", 0), (0, 1, "reserve", 1.5), (0, 1, "reserve", 2), (0, 6, "reserve", None))
    yield case("a refund makes room", leaky_bucket(2, 1), (0, 2), (0, 1, "refund"), (0, 1), (0, 1), (0, 9, "refund"), (0, 2))
    yield case("a lowered capacity holds at once", leaky_bucket(100, 1), (0, 10), leaky_bucket(5, 1), *hits(0, 6))
    yield case("a clock that steps back", leaky_bucket(2, 1), *hits(600, 2), (0, 1), (1, 1), (1, 1), (2, 1))


def gcra_cases():
    yield case("the burst passes at once, then one per interval", gcra(1, 1, 2), *hits(0, 3), (0.999999, 1), (1, 1), (1, 1), (2, 1))
    yield case("without a burst the limit may come at once", gcra(5, 10), *hits(0, 6), (1.999999, 1), (2, 1), (10, 4))
    yield case("very high rates still limit", gcra(2000, 1, 20), *hits(0, 25), (0.0005, 1), (0.0005, 1))
    yield case("a huge cost is never and wraps nothing", gcra(1, 86_400, 1), (0, 200_000_000), (0, 1), (0, 1), (0, 2**31 - 1))
    yield case("a window's edge gives no second burst", gcra(100, 1), (0.9, 100), *[(1.1, 1)] * 22)
    yield case("an interval that is no whole microsecond keeps its remainder", gcra(3, 1, 1), (0, 1), (0.333333, 1), (0.333334, 1), (0.666667, 1), (1, 1), (1.000001, 1))
    yield case("seven per minute, costs of two", gcra(7, 60, 4), *[(n * 8.571428, 2) for n in range(12)])
    yield case("reservations are spaced by the interval", gcra(10, 1, 1), *[(0, 1, "reserve", None)] * 4, (0.05, 1), (0.05, 1, "reserve", 0.3), (0.05, 1, "reserve", 0.35))
    yield case("a refund gives back", gcra(10, 10, 5), (0, 5), (0, 3, "refund"), (0, 4), (0, 3), (0, 1))
    yield case("a clock that steps back", gcra(1, 1, 2), *hits(600, 2), (0, 1), (1, 1), (1, 1), (2, 1))
    yield case("used stays used when the period changes", gcra(10, 1), (0, 10), gcra(10, 60), (0, 1), (5.999999, 1), (6, 1))


def fixed_window_cases():
    policy = fixed_window
    yield case("a window opens at the first hit", policy(3, 60), (10, 1), (10, 1), (69, 1), (69, 1), (69.999999, 1), (70, 3), (70, 1))
    yield case("a denial neither lengthens nor opens a window", policy(3, 2), *[(0.6 * n, 1) for n in range(20)], (50, 4), (50, 1, "peek"), (51, 3), (52.999999, 1), (53, 1))
    yield case("windows of odd lengths", policy(2, 0.75), *hits(0, 3), (0.749999, 1), (0.75, 1))
    yield case("a window of 600.001 s", policy(2, 600.001), *hits(0, 3), (600, 1), (600.001, 1))
    yield case("a wait above 2^31 ms", policy(1, 2_500_000.001), *hits(0, 2), (2_500_000.001, 1))
    yield case("costs, and what is above the limit", policy(5, 60), (0, 3), (0, 3), (0, 2), (0, 1), (0, 6), (60, 5))
    yield case("a lowered limit holds at once", policy(100, 60), (0, 50), policy(10, 60), (0, 1), (60, 1))
    yield case("a raised limit gives what was not used", policy(10, 60), (0, 10), policy(100, 60), (0, 1), (0, 90))
    yield case("a longer window holds for the next one", policy(1, 10), (0, 1), policy(1, 60), (5, 1), (9.999999, 1), (10, 1), (69.999999, 1), (70, 1))
    yield case("a shorter window holds at once", policy(1, 60), (0, 1), policy(1, 10), (5, 1), (9.999999, 1), (10, 1))
    yield case("a clock that steps back", policy(2, 60), *hits(600, 2), (0, 1), (59.999999, 1), (60, 1), (61, 1), (61, 1))
    yield case("a refund gives back within the window", policy(5, 60), (0, 5), (1, 2, "refund"), (1, 3), (1, 2), (1, 99, "refund"), (30, 5), (89.999999, 1), (90, 1))
    yield case("aligned: windows stand at multiples", policy(3, 60, True), (10, 3), (19.999999, 1), (20, 3), (20, 1), (79.999999, 1), (80, 1))
    yield case("aligned: twice the limit around an edge, as documented", policy(100, 1, True), (0.9, 100), (0.9, 1), (1.1, 100), (1.1, 1))
    yield case("aligned: a clock that steps back", policy(2, 60, True), *hits(610, 2), (0, 1), (19.999999, 1), (20, 2))
    yield case("a first-hit window gives no second burst across the clock's second", policy(100, 1), (0.9, 100), (1.1, 1), (1.9, 100))


def sliding_window_log_cases():
    policy = sliding_window_log
    yield case("exact in any span", policy(3, 10), (0, 1), (4, 1), (8, 1), (9, 1), (9.999999, 1), (10, 1), (13.999999, 1), (14, 1))
    yield case("refused calls are not logged", policy(2, 10), *[(n, 1) for n in range(10)], (10.5, 1), (11.5, 1), (12.5, 1))
    yield case("hits at one instant are all counted", policy(100, 1), *hits(0, 103), (0.999999, 1), (1, 100))
    yield case("two hits within a microsecond of a second's edge keep their order", policy(2, 1), (0.000999, 1), (0.001, 1), (1.0005, 1), (1.000999, 1), (1.000999, 1))
    yield case("no second burst across an edge", policy(100, 1), (0.9, 100), (1.1, 1), (1.899999, 1), (1.9, 100))
    yield case("a window of a fraction of a second", policy(2, 0.75), *hits(0, 3), (0.75, 2))
    yield case("a cost takes as many entries, and waits for as many to leave", policy(10, 10), (0, 3), (2, 4), (4, 3), (5, 1), (5, 4), (5, 8), (5, 11), (10, 3), (12, 5))
    yield case("a lowered limit holds at once", policy(100, 60), (0, 50), policy(10, 60), (1, 1), (60, 1))
    yield case("a shorter window holds at once", policy(2, 60), (0, 1), (10, 1), policy(2, 5), (12, 1), (12, 1), (15, 1))
    yield case("a clock that steps back", policy(2, 60), (590, 1), (600, 1), (0, 1), (59.999999, 1), (60, 2))
    yield case("a refund takes back the newest", policy(5, 10), (0, 2), (5, 3), (6, 2, "refund"), (6, 3), (6, 2), (10, 2), (15, 1), (15, 9, "refund"), (15, 5))


def sliding_window_counter_cases():
    policy = sliding_window_counter
    yield case("what overlaps counts", policy(10, 10), (0, 10), (0, 1), (9.999999, 1), (10, 1), (10.000001, 1), (15, 5), (15, 1), (30, 10))
    yield case("no second burst across an edge", policy(100, 1), (0.9, 100), *[(1.1, 1)] * 11)
    yield case("after a long silence nothing is negative", policy(10, 5), *hits(0, 10), *hits(60, 11))
    yield case("the wait ends when one unit has fallen out", policy(60, 60), (20, 60), (80, 12), (92, 1), (92.000001, 1), (92.000001, 1))
    yield case("a denial in a full window waits into the next", policy(4, 10), (0, 4), (0, 1), (0, 4), (0, 5), (12.500001, 1), (12.500001, 1), (20, 4))
    yield case("a window of odd length", policy(7, 0.75), (0, 7), (0.5, 1), (1, 3), (1.4, 2), (1.6, 7))
    yield case("a limit of one", policy(1, 10), (0, 1), (0, 1), (10, 1), (10.000001, 1), (19, 1), (30, 1))
    yield case("a lowered limit holds at once", policy(100, 60), (0, 50), policy(10, 60), (0, 1), (40, 1), (80, 1))
    yield case("a clock that steps back", policy(2, 60), *hits(600, 2), (0, 1), (59.999999, 1), (61, 1), (150, 2))
    yield case("a refund gives back from the current window first", policy(10, 10), (0, 6), (10, 3), (10, 4, "refund"), (10, 1, "peek"), (15, 1, "peek"), (15, 99, "refund"), (15, 10))


def several_cases():
    name = lambda policy, name: {**policy, "name": name}
    minute, day = name(fixed_window(3, 60), "minute"), name(fixed_window(30, 86_400), "day")
    yield several("two limits on one key are each charged once", [minute, day], *hits(0, 4), (60, 1))
    client, shared = name(token_bucket(1, 1, 60), "client"), name(sliding_window_counter(10, 60), "shared")
    yield several(
        "what one policy refuses costs the others nothing",
        [client, shared],
        *[(20, 1, {"client": "x", "shared": "all"})] * 20,
        *[(20, 1, {"client": f"c{n}", "shared": "all"}) for n in range(9)],
        (20, 1, {"client": "late", "shared": "all"}),
        (20, 1, "peek", {"client": "late", "shared": "other"}),
    )
    yield several(
        "the same in the other order",
        [shared, client],
        *[(20, 1, {"client": "x", "shared": "all"})] * 3, (20, 9, {"client": "y", "shared": "all"}), (20, 1, {"client": "y", "shared": "all"}),
    )
    quick, slow = name(gcra(10, 1), "quick"), name(sliding_window_log(2, 60), "slow")
    yield several("a spent limit does not empty the other", [quick, slow], (0, 2), *hits(0, 20), (0, 1, "peek"), (60, 1))
    yield several("the longest wait rules; never is the longest", [quick, slow], (0, 2), (0, 1), (0, 9), (0, 11), (0.1, 1))
    yield several(
        "reservations start when all are ready",
        [name(token_bucket(1, 1, 2), "two"), name(gcra(1, 3, 1), "three")],
        *[(0, 1, "reserve", None)] * 3, (0, 1, "reserve", 5), (1, 2, "reserve", None), (9, 1),
    )
    yield several("refunds go to all", [name(leaky_bucket(5, 1), "leaky"), minute], (0, 3), (0, 1), (0, 2, "refund"), (0, 2), (0, 1))
    everything = [
        name(token_bucket(9, 3, 2), "a"), name(leaky_bucket(8, 2), "b"), name(gcra(7, 3), "c"), name(fixed_window(6, 5), "d"),
        name(sliding_window_log(5, 4), "e"), name(sliding_window_counter(4, 3), "f"),
    ]
    yield several("all algorithms at once", everything, *[(0.7 * n, 1 + n % 2) for n in range(20)], (40, 4), (40, 1, "peek"))


FILES = {
    "policy/token_bucket.json": token_bucket_cases,
    "policy/leaky_bucket.json": leaky_bucket_cases,
    "policy/gcra.json": gcra_cases,
    "policy/fixed_window.json": fixed_window_cases,
    "policy/sliding_window_log.json": sliding_window_log_cases,
    "policy/sliding_window_counter.json": sliding_window_counter_cases,
    "several/several.json": several_cases,
}
