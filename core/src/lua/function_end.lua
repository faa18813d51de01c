return allowed, remaining, retry_after, reset_after, delay, stores, x, y, z, whole_at, slack, expires_at
end
