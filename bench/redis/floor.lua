-- What any limiter with one value per key and an expiry does at least: read it, and write it with a life time.
local value = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
return 1
