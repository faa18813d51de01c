--[[ Token bucket. The twin of algorithm/token_bucket.rs: same names, same steps, same integers.

  value     what is stored: four big-endian doubles { credits, unit, updated_at, whole_at }, or false
  now       microseconds
  cost      tokens asked for
  take      whether to take them, or only to look
  capacity, unit, refill, tick    tokens; credits per token; credits per tick; microseconds per tick

  returns   allowed 0|1, remaining, retry_after (-1: never), reset_after,
            and what to store: nil (leave it), false (delete it), or a string with the instant at which it is whole ]]
local function decide(value, now, cost, take, capacity, unit, refill, tick)
  local full = capacity * unit
  local credits, updated_at, repaired = full, now, false

  local stored, stored_unit, stored_at, whole_at
  if value and #value == 32 then
    stored, stored_unit, stored_at, whole_at = struct.unpack('>dddd', value)
    -- Whatever else has been written under the key is not ours: a comparison with a NaN is false, too.
    if not (stored >= 0 and stored_unit >= 1 and stored_at >= 0 and whole_at > now
        and stored <= 9007199254740992 and stored_unit <= 9007199254740992 and stored_at <= 9007199254740992
        and stored % 1 == 0 and stored_unit % 1 == 0 and stored_at % 1 == 0) then
      stored = nil
    end
  end

  if stored then
    if stored_unit ~= unit then
      -- Another policy counted in other credits. Tokens stay tokens; the part of one is converted by long
      -- multiplication and division, since the plain product does not fit in a double.
      local tokens = math.floor(stored / stored_unit)
      if tokens >= capacity then
        stored = full
      else
        local part, quotient, rest = stored - tokens * stored_unit, 0, 0
        local bit = 4503599627370496
        while bit >= 1 do
          quotient = quotient * 2
          rest = rest * 2
          if rest >= stored_unit then
            rest = rest - stored_unit
            quotient = quotient + 1
          end
          if math.floor(unit / bit) % 2 == 1 then
            if rest >= stored_unit - part then
              rest = rest - (stored_unit - part)
              quotient = quotient + 1
            else
              rest = rest + part
            end
          end
          bit = bit / 2
        end
        stored = tokens * unit + quotient
      end
    end
    if stored > full then stored = full end
    repaired = stored_at > now
    if repaired then stored_at = now end
    local ticks = math.floor((now - stored_at) / tick)
    if ticks < math.ceil((full - stored) / refill) then
      credits = stored + ticks * refill
      updated_at = stored_at + ticks * tick
    end
  end

  -- When the bucket holds so many credits. What is not stored anew is forgotten at `whole_at`; under a policy that
  -- was raised since, that is earlier than the bucket fills.
  local forgotten_at = nil
  local function reaches_at(wanted)
    local instant = updated_at + math.ceil((wanted - credits) / refill) * tick
    if forgotten_at and forgotten_at < instant then instant = forgotten_at end
    return instant
  end

  local need = cost * unit
  local allowed = cost <= capacity and credits >= need
  local takes = allowed and take
  if takes then credits = credits - need end

  if credits < full and not (takes or repaired) then forgotten_at = whole_at end

  local retry_after = 0
  if cost > capacity then
    retry_after = -1
  elseif not allowed then
    retry_after = reaches_at(need) - now
  end
  whole_at = reaches_at(full)

  local next_value = nil
  if takes or repaired then
    next_value = credits < full and struct.pack('>dddd', credits, unit, updated_at, whole_at)
  end
  return allowed and 1 or 0, math.floor(credits / unit), retry_after, whole_at - now, next_value, whole_at
end
