--[[ The bucket: token bucket, leaky bucket and GCRA. The twin of algorithm/bucket.rs: same names, same integers.

  State     credits (negative after reservations), unit, updated_at
  Numbers   capacity in units, unit in credits, refill in credits per tick, tick in µs, queue (1: reservations queue) ]]
local capacity, unit, refill, tick = struct.unpack('<dddd', numbers, first)
local full = capacity * unit
local credits, updated_at, stored, repaired, forgotten_at = full, now, false, false, nil

if value and #value == 40 then
  local kept, kept_unit, kept_at, whole, expires = struct.unpack('<ddddd', value)
  -- Whole by now, or something else that was written under the key: a comparison with a NaN is false, too.
  if whole > now and whole <= 9007199254740992 then
    expires_at = expires
    if kept_unit ~= unit then
      -- Another policy counted in other credits. Units stay units; the part of one is converted by long
      -- multiplication and division, since the plain product does not fit in a double.
      local sign = kept < 0 and -1 or 1
      local units = math.floor(kept * sign / kept_unit)
      if units > capacity then
        kept = kept < 0 and -4503599627370496 or full
      else
        local part, quotient, rest, bit = kept * sign - units * kept_unit, 0, 0, 4503599627370496
        while bit >= 1 do
          quotient = quotient * 2
          rest = rest * 2
          if rest >= kept_unit then
            rest = rest - kept_unit
            quotient = quotient + 1
          end
          if math.floor(unit / bit) % 2 == 1 then
            if rest >= kept_unit - part then
              rest = rest - (kept_unit - part)
              quotient = quotient + 1
            else
              rest = rest + part
            end
          end
          bit = bit / 2
        end
        kept = (units * unit + quotient) * sign
      end
    end
    if not (kept <= full) then
      kept = full
    elseif kept < 0 then
      kept = math.max(kept, -math.min(math.floor(2251799813685248 / tick) * refill, 4503599627370496))
    end
    stored = true
    if kept_at > now then kept_at, repaired = now, true end
    local since = now - kept_at
    if since >= tick then
      -- `x - x % 1` is the floor of x: a function call less.
      local ticks = since / tick
      ticks = ticks - ticks % 1
      if ticks < (full - kept) / refill then
        credits, updated_at, forgotten_at = kept + ticks * refill, kept_at + ticks * tick, whole
      end
    elseif kept < full then
      credits, updated_at, forgotten_at = kept, kept_at, whole
    end
  end
end

local need, allowed, delay, retry_after, changes = cost * unit, 1, 0, 0, false
if need <= credits and verb < 2 then
  -- Nearly every call: it passes, and there is nothing to wait for.
  changes = commit
  if commit then credits = credits - need end
elseif verb == 3 then
  changes = commit and stored
  if changes then
    if cost >= math.ceil((full - credits) / unit) then
      credits = full
    else
      credits = credits + need
    end
  end
elseif cost > capacity then
  allowed, retry_after = 0, -1
else
  -- Until there are as many credits as are needed. `x + -x % 1` is the ceiling of x.
  local waits = 0
  if need > credits then
    waits = (need - credits) / refill
    waits = updated_at + (waits + -waits % 1) * tick - now
  end
  retry_after = waits
  if verb == 2 then
    -- When the taker may start, and until when the reservation has to be put off.
    delay = waits
    if struct.unpack('<d', numbers, first + 32) == 1 then
      if credits < full then delay = updated_at + math.ceil((full - credits) / refill) * tick - now end
      retry_after = math.max(waits, delay - max_wait)
    else
      -- Until the debt would be small enough, and the wait short enough.
      local owes = need - math.min(math.floor(2251799813685248 / tick) * refill, 4503599627370496)
      retry_after = math.max(waits - max_wait, 0)
      if owes > credits then
        retry_after = math.max(retry_after, updated_at + math.ceil((owes - credits) / refill) * tick - now)
      end
    end
    if retry_after > 0 then delay = 0 end
  end
  if retry_after == 0 then
    changes = commit
    if changes then credits = credits - need end
  else
    allowed = 0
    -- What is not stored anew is forgotten; under a policy raised since, before the bucket fills.
    if forgotten_at and not repaired and forgotten_at - now < retry_after then retry_after = forgotten_at - now end
  end
end

local whole_at = now
if credits < full then
  local ticks = (full - credits) / refill
  whole_at = updated_at + (ticks + -ticks % 1) * tick
end
local reset_after, stores = whole_at - now, changes or repaired
-- The instant at which it is whole moves with every call. Up to a minute more life than needed saves setting the expiry
-- anew each time, which costs the server twice as much as writing in place.
local x, y, z, slack = credits, unit, updated_at, 60000000
if forgotten_at and forgotten_at < whole_at and not stores then reset_after = forgotten_at - now end
local remaining = 0
if credits > 0 then
  remaining = credits / unit
  remaining = remaining - remaining % 1
end
