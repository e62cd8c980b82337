-- with: definitions rows instances claiming
-- Make instances that are no fire times', and start those of them that are due here.
local of = by_id(A.of)
if not of then
  return false
end
-- The ids of those that are new, and more than may wait.
local function those_beyond(most)
  local _, unstarted = count_unstarted(of)
  local room, seen, beyond = most - unstarted, {}, {}
  for _, each in ipairs(A.additions) do
    local place = each.key or each.id
    local known = each.key and call('HGET', P .. 'dk:' .. of.life, each.key)
    if not seen[place] and not known and not instance(each.id) then
      seen[place], room = true, room - 1
      beyond[each.id] = room < 0 or nil
    end
  end
  return beyond
end
local most, beyond = of.max_queue, {}
-- What is open is read only if there may be no room for all.
if most and count_open(of) + #A.additions > most then
  beyond = those_beyond(most)
  if next(beyond) and of.when_full ~= 'drop' then
    return most
  end
end
local found, made = {}, {}
for n, each in ipairs(A.additions) do
  local row = instance(each.id)
  local known = each.key and call('HGET', P .. 'dk:' .. of.life, each.key)
  if not row and known then
    row = instance(known)
  end
  if not row then
    row = new(each.id, of, each.at or plus(now, each.delay))
    row.key, row.trace_context = each.key, each.trace_context
    if beyond[each.id] then
      local at, reason = row.execute_at, string.format(A.full, most)
      add_skipped(row, { first = at, last = at, count = 1, reason = reason }, each.payload)
    else
      add(row, each.payload)
      hint('i', row.due_at)
    end
  end
  found[n] = row
  local is_new = row.id == each.id and row.attempt == 0 and not row.outcome
  if is_new and row.due_at <= now then
    made[row.id], made[#made + 1] = row, not made[row.id] and row or nil
  end
end
local served = A.names == 'all' or (A.names and of.name and A.names[of.name])
local queue = A.queues and A.queues[of.queue]
if queue and served and not of.paused and not slot_of(of, false) then
  start_made(made)
end
return done(views(found))
