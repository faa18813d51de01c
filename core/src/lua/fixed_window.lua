--[[ The fixed window. The twin of algorithm/fixed_window.rs: same names, same integers.

  State     used, opened_at, 0
  Numbers   limit in units, window in µs, kind (0: opened by the first hit, 1: at multiples of the window, 2: the one
            from `opens_at` to `closes_at`), opens_at, closes_at ]]
local limit, window, kind, opens_at, closes_at = struct.unpack('<ddddd', numbers, first)
if kind == 2 and (now < opens_at or now >= closes_at) then return now end
local used, opened_at, forgotten_at = 0, now, nil

if value and #value == 40 then
  local kept, kept_at, _, whole, expires = struct.unpack('<ddddd', value)
  if whole > now and whole <= 9007199254740992 and kept_at >= 0 and kept_at <= whole and kept >= 0
      and kept <= 2147483647 then
    used, opened_at, forgotten_at, expires_at = kept, kept_at, whole, expires
  end
end

local start_at, whole_at = opens_at, closes_at
if kind == 0 then
  start_at = opened_at < now and opened_at or now
  whole_at = start_at + window
elseif kind == 1 then
  start_at = now - now % window
  whole_at = start_at + window
end
if whole_at <= now then
  used, start_at, whole_at = 0, now, now + window
end
local repaired = used > 0 and (opened_at > now or forgotten_at > whole_at)

local allowed, after = 1, used
local retry_after, reset_after, delay = 0, 0, 0
if verb < 3 then
  if cost <= limit - used then after = used + cost else allowed = 0 end
elseif verb == 3 then
  after = used > cost and used - cost or 0
elseif verb == 4 then
  if cost <= limit - used then
    retry_after, delay = math.max(cost, math.min(max_wait, limit - used)), whole_at
    after = used + retry_after
  else
    allowed = 0
  end
elseif whole_at == max_wait and forgotten_at == max_wait then
  -- What is stored must be of that window, too: a clock that stepped back looks at a later one's.
  after = used > cost and used - cost or 0
end
local changes = commit and after ~= used
-- What is not stored anew is forgotten when its window was to end, also under a policy with longer ones.
if used > 0 and not changes and not repaired and forgotten_at < whole_at then whole_at = forgotten_at end
if commit then used = after end

local stores = changes or repaired
local x, y, z, slack = used, start_at, 0, 0
if allowed == 0 then retry_after = cost > limit and -1 or whole_at - now end
if used > 0 then reset_after = whole_at - now end
-- A window from which everything was given back is as good as none.
if stores and used == 0 then whole_at = now end
local remaining = limit > used and limit - used or 0
