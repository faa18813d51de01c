--[[ The sliding window log. The twin of algorithm/sliding_window_log.rs: same names, same integers.

  State     a list of grants, oldest first, each four little-endian doubles: at, units, total, whole_at
  Numbers   limit in units, window in µs
  Stores what there is to store itself, with the expiry ]]
local limit, window = struct.unpack('<dd', numbers, first)

-- Nothing where there is no grant, or something else that was written under the key.
local function grant(index)
  local packed = call('LINDEX', key, index)
  if packed and #packed == 32 then
    local at, units, total, whole = struct.unpack('<dddd', packed)
    if at >= 0 and units >= 1 and total >= units and whole >= at and whole <= 9007199254740992 then
      return at, units, total, whole
    end
  end
end

local newest_at, newest_units, newest_total, whole_at = grant(-1)
local repaired = false
if newest_at and whole_at <= now then
  call('DEL', key)
  newest_at = nil
end

local units, before = 0, 0
if newest_at then
  -- Grants from a clock that stepped back become grants of now.
  local index, at, grant_units, total = -1, newest_at, newest_units, newest_total
  while at and at > now do
    call('LSET', key, index, struct.pack('<dddd', now, grant_units, total, now + window))
    repaired = true
    index = index - 1
    at, grant_units, total = grant(index)
  end
  if repaired then newest_at, whole_at = now, now + window end
  -- What has left the window is dropped.
  local oldest_at, oldest_units, oldest_total = grant(0)
  while oldest_at and oldest_at + window <= now do
    call('LPOP', key)
    oldest_at, oldest_units, oldest_total = grant(0)
  end
  if oldest_at then
    before = oldest_total - oldest_units
    units = newest_total - before
  else
    newest_at = nil
  end
end
-- Whatever is left when no grant counts is not ours. It is looked for first: a script that has written something is let
-- write on by a server that is full, and then takes room that is not there.
if not newest_at and commit and call('LLEN', key) > 0 then call('DEL', key) end
local forgotten_at = whole_at

local allowed, changed = 1, repaired
if verb == 3 then
  changed = changed or commit
  local back = commit and cost or 0
  while newest_at and back > 0 do
    if back < newest_units then
      newest_units, newest_total = newest_units - back, newest_total - back
      call('LSET', key, -1, struct.pack('<dddd', newest_at, newest_units, newest_total, whole_at))
      back = 0
    else
      back = back - newest_units
      call('RPOP', key)
      newest_at, newest_units, newest_total, whole_at = grant(-1)
    end
  end
  -- What is left may be of a policy whose windows were shorter, and whole by now.
  if newest_at and whole_at <= now then
    call('DEL', key)
    newest_at = nil
  end
  units = newest_at and newest_total - before or 0
elseif cost > math.max(limit - units, 0) then
  allowed = 0
elseif commit then
  changed = true
  newest_total = newest_at and newest_total + cost or cost
  newest_at, whole_at, units = now, now + window, units + cost
  call('RPUSH', key, struct.pack('<dddd', newest_at, cost, newest_total, whole_at))
end
if changed and newest_at then call('PEXPIRE', key, math.ceil((whole_at - now) / 1000) + margin) end

-- What is not stored anew is forgotten when it was to be empty, also under a policy with longer windows.
local function until_left(at)
  local leaves = at + window
  if not changed and forgotten_at < leaves then leaves = forgotten_at end
  return leaves - now
end

local retry_after, reset_after, delay, stores, x, y, z, slack = 0, 0, 0, false, 0, 0, 0, 0
if newest_at then reset_after = until_left(newest_at) end
if allowed == 0 then
  if cost > limit then
    retry_after = -1
  else
    -- The grant with which enough of the oldest units have left, by halves: totals only grow.
    local wanted, low, high = units + cost - limit, 0, call('LLEN', key) - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      local _, _, total = grant(middle)
      if total and total - before < wanted then low = middle + 1 else high = middle end
    end
    retry_after = until_left(grant(low) or now)
  end
end
local remaining = math.max(limit - units, 0)
