-- with: definitions rows instances claiming
-- Make instances that are no fire times', and start those of them that are due here.
local of = by_id(A.of)
if not of then
  return false
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
