#!/usr/bin/env python3
"""A naive oracle: decides with exact fractions and by trying instants, and writes the vectors with it.

    oracle.py           writes the vector files
    oracle.py --check   exits with 1 when a committed file is not what the oracle gives

Each model says what is left at an instant, if nobody calls in between. A wait is then found by bisection, not by a
formula: the smallest number of microseconds after which enough is left. That is slow and hard to get wrong.
"""

import json
import sys
from copy import deepcopy
from fractions import Fraction
from math import floor
from pathlib import Path

HERE = Path(__file__).parent
SECOND = 1_000_000
EPOCH = 1_700_000_000 * SECOND
NEVER = None


def ratio(number):
    """The ratio a person means by a float: 0.1 is a tenth."""
    return Fraction(number).limit_denominator(10**9)


def first(holds):
    """The smallest wait in microseconds after which `holds`; it goes on to hold from then on."""
    low, high = 0, 2**52
    if holds(0):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class Bucket:
    """Tokens as a fraction, added at the end of each tick; a full bucket forgets its phase."""

    def __init__(self, capacity, tick, gain, queue=False):
        self.limit, self.tick, self.gain, self.queue = capacity, tick, gain, queue

    def fresh(self, now):
        return {"tokens": Fraction(self.limit), "since": now}

    def bring_up_to(self, state, now):
        stepped_back = state["since"] > now
        if stepped_back:
            state["since"] = now
        tokens = self.tokens(state, now)
        if tokens == self.limit:
            state["since"] = now
        else:
            state["since"] += (now - state["since"]) // self.tick * self.tick
        state["tokens"] = tokens
        return stepped_back

    def tokens(self, state, at):
        tokens = min(state["tokens"], Fraction(self.limit))
        return min(tokens + (at - state["since"]) // self.tick * self.gain, Fraction(self.limit))

    def left(self, state, at):
        return floor(self.tokens(state, at))

    def is_whole(self, state, at):
        return self.tokens(state, at) == self.limit

    def take(self, state, now, cost):
        state["tokens"] -= cost

    def give(self, state, now, cost):
        state["tokens"] = min(state["tokens"] + cost, Fraction(self.limit))

    def slot(self, state, now, cost):
        """When a reservation may start; in a queue only if there is a place in it."""
        enough = first(lambda wait: self.left(state, now + wait) >= cost)
        if not self.queue:
            return enough
        return first(lambda wait: self.is_whole(state, now + wait)) if enough == 0 else NEVER


class FixedWindow:
    def __init__(self, limit, window, aligned):
        self.limit, self.window, self.aligned = limit, window, aligned

    def fresh(self, now):
        return {"used": 0, "start": now - now % self.window if self.aligned else now}

    def bring_up_to(self, state, now):
        start = now - now % self.window if self.aligned else min(state["start"], now)
        stepped_back = state["start"] > now or start + self.window < state["whole_at"]
        state["start"] = start
        if start + self.window <= now:
            state.update(self.fresh(now))
            return False
        return stepped_back

    def left(self, state, at):
        return self.limit if at >= state["start"] + self.window else max(self.limit - state["used"], 0)

    def is_whole(self, state, at):
        return state["used"] == 0 or at >= state["start"] + self.window

    def take(self, state, now, cost):
        state["used"] += cost

    def give(self, state, now, cost):
        state["used"] = max(state["used"] - cost, 0)


class SlidingWindowLog:
    """A list of all grants."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window

    def fresh(self, now):
        return {"grants": []}

    def bring_up_to(self, state, now):
        stepped_back = any(at > now for at in state["grants"])
        state["grants"] = [min(at, now) for at in state["grants"] if at > now - self.window]
        return stepped_back

    def left(self, state, at):
        return max(self.limit - sum(at - self.window < grant for grant in state["grants"]), 0)

    def is_whole(self, state, at):
        return all(grant <= at - self.window for grant in state["grants"])

    def take(self, state, now, cost):
        state["grants"] += [now] * cost

    def give(self, state, now, cost):
        del state["grants"][max(len(state["grants"]) - cost, 0) :]


class SlidingWindowCounter:
    def __init__(self, limit, window):
        self.limit, self.window = limit, window

    def fresh(self, now):
        return {"previous": 0, "current": 0, "start": now - now % self.window}

    def at(self, state, at):
        """The counters as they are at an instant."""
        windows = (at - state["start"]) // self.window
        if windows == 0:
            return state
        if windows == 1 and state["current"]:
            return {"previous": state["current"], "current": 0, "start": state["start"] + self.window}
        return self.fresh(at)

    def bring_up_to(self, state, now):
        stepped_back = state["start"] > now
        if stepped_back:
            state["start"] = now
        state.update(self.at(state, now))
        return stepped_back

    def weight(self, state, at):
        state = self.at(state, at)
        overlap = Fraction(self.window - (at - state["start"]), self.window)
        return min(state["previous"], self.limit) * overlap + min(state["current"], self.limit)

    def left(self, state, at):
        return max(self.limit - floor(self.weight(state, at)), 0)

    def is_whole(self, state, at):
        return self.weight(state, at) == 0

    def take(self, state, now, cost):
        state["current"] += cost

    def give(self, state, now, cost):
        from_current = min(cost, state["current"])
        state["current"] -= from_current
        state["previous"] = max(state["previous"] - (cost - from_current), 0)


def machine(p):
    """The model of a policy, as the vectors write it."""
    seconds = lambda name: int(ratio(p[name]) * SECOND)
    match p["algorithm"]:
        case "token_bucket" if not p["continuous"]:
            return Bucket(p["capacity"], seconds("refill_interval"), ratio(p["refill_rate"]))
        case "token_bucket":
            per_us = ratio(p["refill_rate"]) / (ratio(p["refill_interval"]) * SECOND)
            tick = p.get("tick_us", 1)
            return Bucket(p["capacity"], tick, per_us * tick)
        case "leaky_bucket":
            return Bucket(p["capacity"], 1, ratio(p["leak_rate"]) / SECOND, queue=True)
        case "gcra":
            per_us = Fraction(p["limit"]) / (ratio(p["period"]) * SECOND)
            return Bucket(p["burst"] or p["limit"], 1, per_us)
        case "fixed_window":
            return FixedWindow(p["limit"], seconds("window"), p["aligned"])
        case "sliding_window_log":
            return SlidingWindowLog(p["limit"], seconds("window"))
        case "sliding_window_counter":
            return SlidingWindowCounter(p["limit"], seconds("window"))


class Key:
    """One key's state under one policy, and the decisions on it."""

    def __init__(self):
        self.state = None

    def decide(self, p, now, verb, cost, max_wait=None, commit=True):
        model = machine(p)
        kept = self.state if self.state and now < self.state["whole_at"] else None
        state = deepcopy(kept) if kept else model.fresh(now)
        stepped_back = model.bring_up_to(state, now) if kept else False
        forgotten = None if model.is_whole(state, now) else kept and kept["whole_at"]

        allowed, delay, changes = True, 0, False
        if verb == "refund":
            changes = commit and kept is not None
            if changes:
                model.give(state, now, cost)
        elif cost > model.limit:
            allowed = False
        else:
            if verb == "reserve":
                delay = model.slot(state, now, cost)
                passes = lambda delay: delay is not NEVER and (max_wait is None or delay <= max_wait)
                allowed = passes(delay)
            else:
                allowed = model.left(state, now) >= cost
            changes = allowed and commit
            if changes:
                model.take(state, now, cost)

        # What is not stored anew is forgotten when it was to be whole, also under a policy that was raised since.
        told = lambda wait: wait if changes or stepped_back or not forgotten else min(wait, forgotten - now)
        whole = first(lambda wait: model.is_whole(state, now + wait))
        retry = 0
        if not allowed:
            if verb == "reserve":
                goes = lambda wait: passes(model.slot(state, now + wait, cost))
            else:
                goes = lambda wait: model.left(state, now + wait) >= cost
            enough = first(goes) if cost <= model.limit else NEVER
            retry = NEVER if enough is NEVER else told(max(enough, 1))
        if changes or stepped_back:
            state["whole_at"] = now + whole
            self.state = state if whole else None
        decision = {
            "allowed": allowed,
            "limit": model.limit,
            "remaining": max(model.left(state, now), 0),
            "retry_after_us": retry,
            "reset_after_us": told(whole),
        }
        if verb == "reserve":
            decision["delay_us"] = delay if allowed else 0
        return decision


def call(step):
    """(seconds, cost), (seconds, cost, "peek" or "refund"), (seconds, cost, "reserve", longest wait in seconds)."""
    at_us = round(step[0] * SECOND)
    if step[1] == "reset":
        return {"at_us": at_us, "verb": "reset"}
    verb = step[2] if len(step) > 2 else "allow"
    entry = {"at_us": at_us, "verb": verb, "cost": step[1]}
    if verb == "reserve":
        entry["max_wait_us"] = None if step[3] is None else round(step[3] * SECOND)
    return entry


def case(name, policy, *steps, tick_us=1):
    """Steps are calls, (seconds, "reset"), or a policy that replaces the one before."""
    key, current, out = Key(), {**policy, "tick_us": tick_us}, []
    changed = None
    for step in steps:
        if isinstance(step, dict):
            current = changed = step
            continue
        entry = call(step)
        if changed:
            entry["policy"], changed = changed, None
        if entry["verb"] == "reset":
            key.state = None
        else:
            wait = entry.get("max_wait_us")
            now, verb = EPOCH + entry["at_us"], entry["verb"]
            decision = key.decide(current, now, verb, entry["cost"], wait, commit=verb != "peek")
            if verb != "refund":
                entry["expect"] = decision
        out.append(entry)
    return {"name": name, "policy": policy, "steps": out}


def several(name, policies, *steps):
    """Steps are calls; a dict at their end gives each policy its own key."""
    states, out = {}, []
    for step in steps:
        keys = step[-1] if isinstance(step[-1], dict) else None
        entry = call(step[:-1] if keys else step)
        at = lambda p: states.setdefault((p["name"], keys[p["name"]] if keys else ""), Key())
        ask = lambda commit: [
            at(p).decide(p, EPOCH + entry["at_us"], entry["verb"], entry["cost"], entry.get("max_wait_us"), commit)
            for p in policies
        ]
        if keys:
            entry["keys"] = keys
        each = ask(False)
        if all(decision["allowed"] for decision in each) and entry["verb"] != "peek":
            each = ask(True)
        if entry["verb"] != "refund":
            refusing = [i for i, d in enumerate(each) if not d["allowed"]]
            longest = lambda i: 2**60 if each[i]["retry_after_us"] is NEVER else each[i]["retry_after_us"]
            share = lambda i: Fraction(each[i]["remaining"], each[i]["limit"])
            ruling = max(refusing, key=longest) if refusing else min(range(len(each)), key=share)
            entry["expect"] = {**each[ruling], "policy": policies[ruling]["name"], "each": each}
            if entry["verb"] == "reserve":
                entry["expect"]["delay_us"] = 0 if refusing else max(decision["delay_us"] for decision in each)
        out.append(entry)
    return {"name": name, "policies": policies, "steps": out}


def main():
    # They are written with the functions of this file.
    import cases

    for name, histories in cases.FILES.items():
        text = json.dumps({"cases": list(histories())}, indent=None, separators=(",", ":"))
        # A step a line: diffs stay readable.
        text = text.replace('{"name":"', '\n\n{"name":"', 1) if name.startswith("several") else text.replace('{"name"', '\n\n{"name"')
        text = text.replace('"steps":[', '"steps":[\n').replace(',{"at_us"', ',\n{"at_us"').replace("]},{", "]},\n\n{") + "\n"
        path = HERE / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                sys.exit(f"{path} is not what the oracle gives; run {Path(__file__).name} and look at the difference")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    main()
