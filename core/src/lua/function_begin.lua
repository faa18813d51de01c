(key, value, now, verb, commit, cost, max_wait, margin, a, b, c, d, e)
local call, expires_at = redis.call, 0
