--[[ Several policies, all or nothing: asks each fragment whether the call passes, and only if all say so has each take
  its cost. The fragments stand before this as functions.

  KEYS[1..n]   the states, one per policy
  KEYS[n+1]    absent, or what was answered to the call's idempotency token
  ARGV[1]      ARGV[2] of single_begin.lua, always there
  ARGV[2..]    per policy six little-endian doubles: the machine's number, then the policy's five

  returns      per policy what single_begin.lua returns, one after the other; or the server's time
  writes       KEYS, as single_begin.lua says ]]
local call = redis.call
local machines = { bucket, fixed_window, sliding_window_counter, sliding_window_log }
local verb, cost, max_wait, now, lifetime = struct.unpack('<ddddd', ARGV[1])
local policies = #ARGV - 1
local margin = 5000
if now == 0 then
  local time = call('TIME')
  now, margin = time[1] * 1000000 + time[2], 0
end

local remembered, length = KEYS[policies + 1], policies * 40
if remembered then
  local answer = call('GET', remembered)
  if answer and #answer == length + 8 and struct.unpack('<d', answer, length + 1) > now then
    return string.sub(answer, 1, length)
  end
end

local values, numbers = {}, {}
for policy = 1, policies do
  numbers[policy] = { struct.unpack('<dddddd', ARGV[policy + 1]) }
  values[policy] = numbers[policy][1] ~= 4 and call('GET', KEYS[policy])
end

local answers, all = {}, true
local function ask(policy, commit)
  local key, own = KEYS[policy], numbers[policy]
  local allowed, remaining, retry_after, reset_after, delay, stores, x, y, z, whole_at, slack, expires_at =
    machines[own[1]](key, values[policy], now, verb, commit, cost, max_wait, margin, own[2], own[3], own[4], own[5],
      own[6])
  if not remaining then return false end
  answers[policy] = struct.pack('<ddddd', allowed, remaining, retry_after, reset_after, delay)
  all = all and allowed == 1
  if stores then
    local value = false
    if whole_at <= now then
      call('DEL', key)
    elseif whole_at <= expires_at and margin == 0 then
      value = struct.pack('<ddddd', x, y, z, whole_at, expires_at)
      call('SET', key, value, 'KEEPTTL')
    else
      expires_at = whole_at + slack
      value = struct.pack('<ddddd', x, y, z, whole_at, expires_at)
      call('SET', key, value, 'PX', math.ceil((expires_at - now) / 1000) + margin)
    end
    values[policy] = value
  end
  return true
end

for policy = 1, policies do
  if not ask(policy, false) then return now end
end
if all and verb > 0 then
  for policy = 1, policies do ask(policy, true) end
end
local answer = table.concat(answers)
if remembered and all and verb > 0 then
  call('SET', remembered, table.concat({ answer, struct.pack('<d', now + lifetime * 1000) }), 'PX', lifetime)
end
return answer
