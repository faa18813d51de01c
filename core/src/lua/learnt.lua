--[[ Budgets that are learnt from somebody else's API. The twin of algorithm/learnt.rs: same names, same integers.

  State     of a pause: the next instant, the spacing, 0; of a window: units left, the limit, its end; of a bucket that
            fills bit by bit: when it is full, the limit, the time of one unit; of a gate: nothing. The first of them is
            -1 where one caller is about to find out, -2 where the API told nothing
  Numbers   a kind, and what belongs to it. 1 to 4 take a request from a pause, a window, a gradual bucket, a gate, with
            how long a claim holds; 11 to 14 write one, 15 writes that nothing was told ]]
local kind, p, q, r, s = struct.unpack('<ddddd', numbers, first)
local known, a, b, c, whole_at = false, 0, 0, 0, 0

if value and #value == 40 then
  local x, y, z, whole, expires = struct.unpack('<ddddd', value)
  if whole > now and whole <= 9007199254740992 and x >= -2 and x <= 9007199254740992 and y >= 0
      and y <= 9007199254740992 and z >= 0 and z <= 9007199254740992 then
    known, a, b, c, whole_at, expires_at = true, x, y, z, whole, expires
  end
end

local allowed, remaining, retry_after, reset_after, delay = 1, 0, 0, 0, 0
local stores, slack = false, 0
if kind > 10 then
  local told = known and a >= 0
  if kind == 11 then
    a = math.max(told and a or 0, now + p)
    b, c, whole_at, stores = q, 0, a + r, true
  elseif kind == 12 then
    local ends = now + r
    if not told then
      if r > 0 then
        a, b, c, whole_at = q, p, ends, ends + s
      elseif q > 0 then
        a, b, c, whole_at = q, p, ends, now + 1000000
      else
        whole_at = 0
      end
      stores = true
    elseif ends + 1100000 >= c then
      if ends <= c + 1100000 then
        a, b, c = math.min(q, a), p, math.min(ends, c)
        whole_at = math.max(c + s, now)
      else
        a, b, c, whole_at = q, p, ends, ends + s
      end
      stores = true
    end
  elseif kind == 13 then
    told = told and b == p
    local unit, full = r, 0
    if told then
      if unit == 0 or c < unit then unit = c end
      local owed, span = a > now and a - now or 0, c > 1 and c or 1
      local rest = owed % span
      full = now + (owed - rest) / span * unit + math.min(rest, unit)
    elseif unit == 0 then
      unit = s
    end
    a = math.min(math.max(full, now + (p - q) * unit), now + p * unit)
    b, c, whole_at, stores = p, unit, a + 60000000, true
  elseif kind == 14 then
    a, b, c, stores = 0, 0, 0, true
    whole_at = p > 0 and now + p or 0
  elseif not told then
    a, b, c, stores = -2, 0, 0, true
    whole_at = p > 0 and now + p or 0
  end
elseif not known then
  if verb ~= 3 and (kind == 2 or kind == 3) then
    a, whole_at, stores = -1, now + p, true
  end
elseif a == -1 and (kind == 2 or kind == 3) then
  allowed, retry_after = 0, whole_at - now
elseif a == -2 then
  remaining = 2147483647
elseif kind == 1 then
  if now < a then
    allowed, retry_after, reset_after = 0, a - now, a - now
  else
    a, c, stores = now + b, 0, true
  end
elseif kind == 2 then
  delay, reset_after = b, whole_at - now
  if verb == 3 then
    remaining, stores = math.min(a + cost, math.max(b, a)), true
  elseif cost > a then
    allowed, remaining, retry_after = 0, a, reset_after
  else
    remaining, stores = a - cost, true
  end
  if commit then a = remaining else remaining = a end
elseif kind == 3 then
  local owed = a > now and a - now or 0
  local whole, costs, after = b * c, cost * c, nil
  delay = b
  if verb == 3 then
    after = owed > costs and owed - costs or 0
  elseif owed + costs <= whole then
    after = owed + costs
  end
  if after then
    a, stores = now + after, true
    whole_at = math.max(whole_at, a + 60000000)
    if commit then owed = after end
  else
    allowed, retry_after = 0, math.max(owed + costs - whole, 1)
  end
  local left = whole > owed and whole - owed or 0
  local unit = c > 1 and c or 1
  remaining, reset_after = (left - left % unit) / unit, owed
else
  allowed, retry_after, reset_after = 0, whole_at - now, whole_at - now
end
stores = stores and commit
local x, y, z = a, b, c
