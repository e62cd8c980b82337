-- with: definitions rows instances claiming
-- Make instances that are no fire times', and start those of them that are due here.
local of = by_id(A.of)
if not of then
  return false
end
-- Whether what is new would be more than may wait.
local function is_full(most)
  local new, seen = 0, {}
  for _, each in ipairs(A.additions) do
    local place = each.key or each.id
    local known = each.key and call('HGET', P .. 'dk:' .. of.life, each.key)
    if not seen[place] and not known and not instance(each.id) then
      seen[place], new = true, new + 1
    end
  end
  local waiting = 0
  for _, row in ipairs(open_rows(of)) do
    if not row.claimed_by or not row.started_at then
      waiting = waiting + 1
    end
  end
  return new > 0 and waiting + new > most
end
local is_limited = of.policies and string.find(of.policies, '"max_queue"', 1, true)
local most = is_limited and cjson.decode(of.policies).max_queue
if most and is_full(most) then
  return most
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
    row.payload, row.key = each.payload, each.key
    row.trace_context = each.trace_context
    add(row)
    hint('i', row.due_at)
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
