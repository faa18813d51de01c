--[[ One policy. Between this and single_end.lua stands the fragment of its machine.

  KEYS[1]      the state
  KEYS[2]      absent, or what was answered to the call's idempotency token
  ARGV[1]      five little-endian doubles: the policy's numbers as its fragment takes them, 0 where it takes fewer
  ARGV[2]      five more: the verb (0 look, 1 allow, 2 reserve, 3 refund, 4 lease, 5 return); the cost; the longest wait
               of a reservation in µs, of a lease the most units, of a return the end of its window; the caller's time
               in µs, or 0 for the server's; how long a token is remembered, in ms. Absent: allow 1, at the server's time

  returns      five little-endian doubles: allowed 0|1, remaining, retry_after (-1: never), reset_after, delay; waits in µs.
               Of a lease that passes retry_after is the units taken, and delay the end of the window.
               When nothing is left five more: the time, and the state's first four, by which whoever asked can tell for
               himself until when there will be nothing. A log has no such state.
               Or the server's time as an integer, when the window given does not hold it: nothing was done
  writes       KEYS[1]: the fragment's three numbers, the instant from which it equals no key at all, and the one at
               which it expires, as five doubles; KEYS[2]: what was returned, and until when it counts

  A fragment finds key, value, numbers and where in them its own begin (first), verb, commit, cost, max_wait, now, margin
  and expires_at. It leaves allowed, remaining, retry_after, reset_after, delay, whether it stores, what (x, y, z),
  whole_at, and slack: how much longer the key may live at most. It is no function, since a script's functions are made
  anew in every call. ]]
local key, numbers, first, call, verb, commit, cost = KEYS[1], ARGV[1], 1, redis.call, 1, true, 1
local now, margin, expires_at, max_wait, lifetime = 0, 0, 0
-- A local name is found faster than a global one.
local struct = struct
local value
if ARGV[2] then
  verb, cost, max_wait, now, lifetime = struct.unpack('<ddddd', ARGV[2])
  commit = verb > 0
end
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  -- The caller's clock and the server's run apart, so a key written at the caller's time is kept a little longer; the
  -- state itself says when it is whole.
  margin = 5000
end
local remembered = KEYS[2]
if remembered then
  local answer = call('GET', remembered)
  if answer and #answer == 48 and struct.unpack('<d', answer, 41) > now then return string.sub(answer, 1, 40) end
end
