
if stores then
  if whole_at <= now then
    call('DEL', key)
    value = nil
  elseif whole_at <= expires_at and margin == 0 then
    -- In place: the key keeps its expiry, and the reply is no table.
    value = struct.pack('<ddddd', x, y, z, whole_at, expires_at)
    call('SETRANGE', key, '0', value)
  else
    expires_at = whole_at + math.min(slack, (whole_at - now) / 2 + 5000000)
    local lives = (expires_at - now) / 1000
    value = struct.pack('<ddddd', x, y, z, whole_at, expires_at)
    call('SET', key, value, 'PX', lives + -lives % 1 + margin)
  end
end
local answer = struct.pack('<ddddd', allowed, remaining, retry_after, reset_after, delay)
if remembered and allowed == 1 and commit then
  call('SET', remembered, table.concat({ answer, struct.pack('<d', now + lifetime * 1000) }), 'PX', lifetime)
end
if (remaining == 0 or allowed == 0) and value and #value == 40 then
  return table.concat({ answer, struct.pack('<d', now), string.sub(value, 1, 32) })
end
return answer
