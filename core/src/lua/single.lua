--[[ One policy: reads the clock and the state, lets `decide` (the fragment before this one) do the thinking, and stores
  what it says. Where the fragment keeps a list instead of a value, `packed` is false and it stores itself.

  KEYS[1]      the state
  KEYS[2]      absent, or what was answered to the call's idempotency token
  ARGV[1]      verb: 0 look, 1 allow, 2 reserve, 3 refund        ARGV[2]  cost
  ARGV[3]      the longest wait of a reservation in µs           ARGV[4]  the caller's time in µs; 0: the server's
  ARGV[5]      how long a token is remembered, in ms
  ARGV[6..]    the policy's numbers, in the order of the fragment

  returns      { allowed 0|1, remaining, retry_after (-1: never), reset_after, delay }, waits in µs;
               { now } when the window given does not hold the server's time: nothing was done
  writes       KEYS[1], with an expiry at the instant from which it equals no key at all; KEYS[2] ]]
if KEYS[2] then
  local remembered = redis.call('GET', KEYS[2])
  if remembered and #remembered == 40 then return { struct.unpack('>ddddd', remembered) } end
end

local verb, now = tonumber(ARGV[1]), instant(tonumber(ARGV[4]))
local allowed, remaining, retry_after, reset_after, delay, value, whole_at = decide(
  KEYS[1], packed and redis.call('GET', KEYS[1]), now, math.max(verb, 1), verb > 0, tonumber(ARGV[2]),
  tonumber(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8] or 0), tonumber(ARGV[9] or 0),
  tonumber(ARGV[10] or 0))
if not allowed then return { now } end
store(KEYS[1], value, now, whole_at)

if KEYS[2] and allowed == 1 and verb > 0 then
  local answer = struct.pack('>ddddd', allowed, remaining, retry_after, reset_after, delay)
  redis.call('SET', KEYS[2], answer, 'PX', ARGV[5])
end
return { allowed, remaining, retry_after, reset_after, delay }
