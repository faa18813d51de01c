
if stores then
  if whole_at <= now then
    call('DEL', key)
  elseif whole_at <= expires_at and margin == 0 then
    -- In place: the key keeps its expiry, and the reply is no table.
    call('SETRANGE', key, '0', struct.pack('<ddddd', x, y, z, whole_at, expires_at))
  else
    expires_at = whole_at + math.min(slack, (whole_at - now) / 2 + 5000000)
    local lives = (expires_at - now) / 1000
    call('SET', key, struct.pack('<ddddd', x, y, z, whole_at, expires_at), 'PX', lives + -lives % 1 + margin)
  end
end
local answer = struct.pack('<ddddd', allowed, remaining, retry_after, reset_after, delay)
if remembered and allowed == 1 and commit then
  call('SET', remembered, table.concat({ answer, struct.pack('<d', now + lifetime * 1000) }), 'PX', lifetime)
end
return answer
