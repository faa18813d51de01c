--[[ Several policies, all or nothing: asks each fragment what would be if the call passed, and writes that only if all
  let it pass. The fragments stand before this as functions.

  KEYS[1..n]   the states, one per policy
  KEYS[n+1]    absent, or what was answered to the call's idempotency token
  ARGV[1]      ARGV[2] of single_begin.lua, always there
  ARGV[2..]    per policy six little-endian doubles: the machine's number, then the policy's five

  returns      per policy the five doubles of single_begin.lua, one after the other. When one refuses and none is a log
               then the time, and per policy the state's first four, zeros where there is none; or the server's time
  writes       KEYS, as single_begin.lua says ]]
local call, struct = redis.call, struct
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

-- Per policy: the answer; the state; whether it passes; the state to be written, and for how many ms: 0 in place, for as
-- long as it lives already; -1 not at all, it is deleted; false for nothing to be written. Three have room at once.
local answers, values, passes, states, lives = { '', '', '' }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }
-- The policies that are logs, which write what they decide and so are asked what would be before they are asked to.
local logs = false
local machines = { bucket, fixed_window, sliding_window_counter, sliding_window_log, learnt }

local function ask(policy, commit)
  local numbers = ARGV[policy + 1]
  local allowed, remaining, retry_after, reset_after, delay, stores, x, y, z, whole_at, slack, expires_at =
    machines[struct.unpack('<d', numbers)](KEYS[policy], values[policy], now, verb, commit, cost, max_wait, margin,
      numbers, 9)
  if not remaining then return nil end
  answers[policy] = struct.pack('<ddddd', allowed, remaining, retry_after, reset_after, delay)
  passes[policy] = allowed
  local life = false
  if stores then
    if whole_at <= now then
      life = -1
    else
      life = 0
      if whole_at > expires_at or margin > 0 then
        expires_at = whole_at + math.min(slack, (whole_at - now) / 2 + 5000000)
        life = math.ceil((expires_at - now) / 1000) + margin
      end
      states[policy] = struct.pack('<ddddd', x, y, z, whole_at, expires_at)
    end
  end
  lives[policy] = life
  return allowed
end

local commit, all = verb > 0, true
for policy = 1, policies do
  local is_log = struct.unpack('<d', ARGV[policy + 1]) == 4
  if is_log then
    logs = logs or {}
    logs[policy] = true
  else
    values[policy] = call('GET', KEYS[policy])
  end
  local allowed = ask(policy, commit and not is_log)
  if not allowed then return now end
  all = all and allowed == 1
end
if not all then
  -- Whoever would have let it pass takes nothing after all.
  for policy = 1, policies do
    if passes[policy] == 1 and not (logs and logs[policy]) then ask(policy, false) end
  end
elseif commit and logs then
  for policy = 1, policies do
    if logs[policy] then ask(policy, true) end
  end
end
for policy = 1, policies do
  local life = lives[policy]
  if life then
    if life == 0 then
      call('SETRANGE', KEYS[policy], '0', states[policy])
    elseif life > 0 then
      call('SET', KEYS[policy], states[policy], 'PX', life)
    else
      call('DEL', KEYS[policy])
    end
  end
end

local answer = table.concat(answers, '', 1, policies)
if remembered and all and commit then
  call('SET', remembered, table.concat({ answer, struct.pack('<d', now + lifetime * 1000) }), 'PX', lifetime)
end
if all or logs then return answer end
local parts = { answer, struct.pack('<d', now) }
for policy = 1, policies do
  local state = lives[policy] and lives[policy] >= 0 and states[policy] or values[policy]
  if lives[policy] == -1 or not state or #state ~= 40 then state = struct.pack('<dddd', 0, 0, 0, 0) end
  parts[policy + 2] = string.sub(state, 1, 32)
end
return table.concat(parts)
