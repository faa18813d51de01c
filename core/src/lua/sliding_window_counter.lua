--[[ The sliding window counter. The twin of algorithm/sliding_window_counter.rs: same names, same integers.

  State     previous, current, start_at
  Numbers   limit in units, window in ticks, tick in µs ]]
local limit, window, tick = struct.unpack('<ddd', numbers, first)
local span = window * tick
local previous, current, start_at, repaired, forgotten_at = 0, 0, now - now % span, false, nil

if value and #value == 40 then
  local kept_previous, kept_current, kept_start, whole, expires = struct.unpack('<ddddd', value)
  if whole > now and whole <= 9007199254740992 and kept_start >= 0 and kept_start <= whole and kept_previous >= 0
      and kept_previous <= 2147483647 and kept_current >= 0 and kept_current <= 2147483647 then
    expires_at = expires
    if kept_start > now then kept_start, repaired = now, true end
    local windows = math.floor((now - kept_start) / span)
    if windows == 0 then
      previous, current, start_at, forgotten_at = kept_previous, kept_current, kept_start, whole
    elseif windows == 1 and kept_current > 0 then
      previous, current, start_at, forgotten_at = kept_current, 0, kept_start + span, whole
    end
  end
end

-- What counts as used. A state of a policy with a higher limit may hold more than this one's numbers are made for.
local left = window - math.floor((now - start_at) / tick)
local function weighed()
  return math.floor((math.min(previous, limit) * left + math.min(current, limit) * window) / window)
end

local allowed, changes = 1, commit
local retry_after, delay = 0, 0
if verb < 3 then
  if cost > limit - weighed() then allowed, changes = 0, false end
  if changes then current = current + cost end
elseif verb == 3 then
  changes = changes and previous + current > 0
  if changes then
    local from_current = math.min(cost, current)
    current = current - from_current
    previous = math.max(previous - (cost - from_current), 0)
  end
elseif verb == 4 then
  local room = limit - weighed()
  if cost > room then
    allowed, changes = 0, false
  else
    retry_after, delay = math.max(cost, math.min(max_wait, room)), start_at + span
    current = current + retry_after
  end
else
  -- A clock that stepped back looks at a later window's counts.
  changes = changes and current > 0 and not repaired and start_at + span == max_wait
  if changes then current = math.max(current - cost, 0) end
end

local stores = changes or repaired
local whole_at = now
if current > 0 then
  whole_at = start_at + 2 * span
elseif previous > 0 then
  whole_at = start_at + span
end
local x, y, z, slack = previous, current, start_at, 0

if allowed == 0 then
  if cost > limit then
    retry_after = -1
  else
    local falling, from, room, counted = math.min(previous, limit), start_at, limit - cost + 1, math.min(current, limit)
    if room > counted then
      room = room - counted
    else
      falling, from = counted, start_at + span
    end
    -- The first tick at which what is left of the falling counter is below the room.
    local outweighed = math.ceil(room * window / math.max(falling, 1)) - 1
    retry_after = from + math.max(window - outweighed, 0) * tick - now
    -- What is not stored anew is forgotten when it was to be whole, also under a policy with a longer window.
    if forgotten_at and not stores then retry_after = math.min(retry_after, forgotten_at - now) end
  end
end
local reset_after = whole_at - now
if forgotten_at and not stores then reset_after = math.min(reset_after, forgotten_at - now) end
local remaining = math.max(limit - weighed(), 0)
