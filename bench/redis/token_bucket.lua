--[[ The token bucket of redis.io's guide (redis.io/docs/latest/develop/use-cases/rate-limiter), in our own words: the same
  commands with the same arguments, the same steps, the same answer. It sets no expiry and tells no wait.

  KEYS[1]  the bucket     ARGV  capacity, tokens per interval, interval in seconds, the caller's time in seconds ]]
local bucket = KEYS[1]
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local interval = tonumber(ARGV[3])
local now = tonumber(ARGV[4])

local stored = redis.call('HMGET', bucket, 'tokens', 'last_refill')
local tokens = tonumber(stored[1])
local filled_at = tonumber(stored[2])
if tokens == nil then
  tokens = capacity
  filled_at = now
end

local since = now - filled_at
local intervals = math.floor(since / interval)
if intervals > 0 then
  tokens = math.min(capacity, tokens + (intervals * rate))
  filled_at = filled_at + (intervals * interval)
end

local allowed = 0
if tokens >= 1 then
  tokens = tokens - 1
  allowed = 1
end

redis.call('HMSET', bucket, 'tokens', tokens, 'last_refill', filled_at)
return {allowed, tokens}
