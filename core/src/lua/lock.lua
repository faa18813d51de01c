--[[ A lock: one lease, whose holder is the value of the key. The twin of algorithm/in_flight.rs with a limit of one.

  KEYS[1]      the lock
  ARGV[1]      little-endian doubles: what is done (0 look, 1 acquire, 2 extend, 3 release); 1; how long it lasts in µs
  ARGV[2]      the holder

  returns      three little-endian doubles: done 0|1, locks held 0|1, the wait until it is over in µs
  writes       KEYS[1]: the holder, with the time to live ]]
local key, holder, call, struct = KEYS[1], ARGV[2], redis.call, struct
local act, _, ttl = struct.unpack('<ddd', ARGV[1])
local lives = math.ceil(ttl / 1000)

if act == 1 and call('SET', key, holder, 'NX', 'PX', lives) then return struct.pack('<ddd', 1, 1, 0) end
local owner = call('GET', key)
if not owner then return struct.pack('<ddd', act == 0 and 1 or 0, 0, 0) end
if act == 0 or owner ~= holder then
  if act > 1 then return struct.pack('<ddd', 0, 1, 0) end
  local left = call('PTTL', key)
  if left < 0 and act == 1 then
    -- Whoever took its expiry away, nobody is locked out for ever.
    call('PEXPIRE', key, lives)
    left = lives
  end
  return struct.pack('<ddd', 0, 1, math.max(left, 1) * 1000)
end
if act == 3 then
  call('DEL', key)
  return struct.pack('<ddd', 1, 0, 0)
end
call('PEXPIRE', key, lives)
return struct.pack('<ddd', 1, 1, 0)
