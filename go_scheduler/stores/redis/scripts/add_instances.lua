-- with: definitions rows instances claiming
-- Make instances that are no fire times', and start those of them that are due here.
local of = by_id(A.of)
if not of then
  return false
end

-- The instance that has its id or its key already.
local function known(each)
  local row = instance(each.id)
  if row or not each.key then
    return row
  end
  local id = call('HGET', P .. 'dk:' .. of.life, each.key)
  return id and instance(id)
end

-- The ids of those that are new, and more than may wait.
local function those_beyond(most)
  local _, unstarted = count_unstarted(of)
  local room, seen, beyond = most - unstarted, {}, {}
  for _, each in ipairs(A.additions) do
    local place = each.key or each.id
    if not seen[place] and not known(each) then
      seen[place], room = true, room - 1
      beyond[each.id] = room < 0 or nil
    end
  end
  return beyond
end

local most, beyond = of.max_queue, {}
-- What is open is read only if there may be no room for all.
if most and call('ZCARD', P .. 'do:' .. of.life) + #A.additions > most then
  beyond = those_beyond(most)
  if next(beyond) and of.when_full ~= 'drop' then
    return most
  end
end
local found, made = {}, {}
for n, each in ipairs(A.additions) do
  local row = known(each)
  if not row then
    local at = each.at or plus(now, each.delay)
    row = new(each.id, of, at, nil, nil, each.overrides)
    row.key, row.trace_context = each.key, each.trace_context
    if beyond[each.id] then
      row.outcome, row.completed_at = 'skipped', now
      row.skipped_reason = string.format(A.full, most)
    else
      hint('i', row.due_at)
    end
    add(row, each.payload_text)
    made[#made + 1] = not row.outcome and row.due_at <= now and row or nil
  end
  found[n] = row
end
local function is_among(values, value)
  for _, each in ipairs(values) do
    if each == value then
      return true
    end
  end
end
local claimant = A.claimant
local runs_it = claimant and is_among(claimant.queues, of.queue)
  and (not claimant.names or is_among(claimant.names, of.name))
if runs_it and not of.paused and not slot_of(of, false) then
  start_made(made)
end
return done(views(found))
