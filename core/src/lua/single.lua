--[[ One policy, one key: reads the clock and the state, lets `decide` (the fragment before this one) do the thinking,
  and stores what it says.

  KEYS[1]      the state
  ARGV[1]      cost        ARGV[2]  1 to take, 0 to look
  ARGV[3..6]   the policy's numbers, in the order of the fragment
  ARGV[7]      the caller's time in microseconds; absent: the server's

  returns      { allowed 0|1, remaining, retry_after in µs (-1: never), reset_after in µs }
  writes       KEYS[1], with an expiry at the instant from which it equals no key at all ]]
local now, margin = tonumber(ARGV[7]), 0
if now then
  -- The caller's clock and the server's run apart, so the key is kept a little longer; the state itself says when it
  -- is whole.
  margin = 5000
else
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local allowed, remaining, retry_after, reset_after, value, whole_at = decide(
  redis.call('GET', KEYS[1]), now, tonumber(ARGV[1]), ARGV[2] == '1',
  tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))

if value then
  redis.call('SET', KEYS[1], value, 'PX', math.ceil((whole_at - now) / 1000) + margin)
elseif value == false then
  redis.call('DEL', KEYS[1])
end
return { allowed, remaining, retry_after, reset_after }
