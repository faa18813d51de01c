--[[ Leases of work in flight. The twin of algorithm/in_flight.rs: same names, same integers.

  KEYS[1]      a sorted set: each lease by the instant from which it is over
  ARGV[1]      four little-endian doubles: what is done (0 look, 1 acquire, 2 extend, 3 release); the limit; how long a lease
               lasts in µs; the caller's time in µs, or 0 for the server's
  ARGV[2]      the lease

  returns      three little-endian doubles: done 0|1, leases held, the wait until the first is over in µs
  writes       KEYS[1], which expires with the last lease ]]
local key, lease, call, struct = KEYS[1], ARGV[2], redis.call, struct
local act, limit, ttl, now = struct.unpack('<dddd', ARGV[1])
-- The caller's clock and the server's run apart, so a key written at the caller's time is kept a little longer.
local margin = 5000
if now == 0 then
  local time = call('TIME')
  now, margin = time[1] * 1000000 + time[2], 0
end
local ends = now + ttl

if act == 0 then
  local held = call('ZCOUNT', key, now + 1, '+inf')
  if held < limit then return struct.pack('<ddd', 1, held, 0) end
  local first = call('ZRANGEBYSCORE', key, now + 1, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return struct.pack('<ddd', 0, held, math.min(first[2], ends) - now)
end
call('ZREMRANGEBYSCORE', key, '-inf', now)
-- From before the clock stepped back, or the lifetime was shortened.
for _, late in ipairs(call('ZRANGEBYSCORE', key, ends + 1, '+inf')) do call('ZADD', key, ends, late) end

local held = call('ZCARD', key)
local own = call('ZSCORE', key, lease)
local done, wait = 0, 0
if act == 3 then
  done = call('ZREM', key, lease)
  held = held - done
elseif own or (act == 1 and held < limit) then
  done, held = 1, own and held or held + 1
  call('ZADD', key, ends, lease)
  call('PEXPIRE', key, math.ceil(ttl / 1000) + margin)
elseif act == 1 then
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  wait = first[2] - now
  -- Whoever took the expiry away, no lease outlives its time.
  if call('PTTL', key) < 0 then call('PEXPIRE', key, math.ceil(ttl / 1000) + margin) end
end
return struct.pack('<ddd', done, held, wait)
