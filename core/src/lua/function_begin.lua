(key, value, now, verb, commit, cost, max_wait, margin, numbers, first)
local call, expires_at = redis.call, 0
