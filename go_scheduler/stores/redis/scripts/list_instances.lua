-- with: definitions rows instances
-- A page of instances, of some sorted sets together, between two places; and how many
-- of some states are not in it.
local sets, of = A.sets or {}, A.of and by_id(A.of)
for _, queue in ipairs(A.by_queue and call('SMEMBERS', P .. 'queues') or {}) do
  for _, kind in ipairs(A.by_queue) do
    sets[#sets + 1] = kind .. queue
  end
end
if A.own and of then
  local own, beside = A.own .. of.life, A.among
  local is_shorter = beside and call('ZCARD', P .. beside) < call('ZCARD', P .. own)
  sets = { is_shorter and beside or own }
end

local lists = {}
for n, key in ipairs(sets) do
  local command, first, last = 'ZRANGEBYLEX', A.from, A.to
  if A.descending then
    command, first, last = 'ZREVRANGEBYLEX', A.to, A.from
  end
  lists[n] = call(command, P .. key, first, last, 'LIMIT', 0, A.limit)
end
local members = merged(lists, A.limit, A.descending and function(one, other)
  return one > other
end)

local missing, is_counted = 0, {}
for _, state in ipairs(A.counted or {}) do
  missing = missing + (tonumber(call('HGET', P .. 'counts', state)) or 0)
  is_counted[state] = true
end
local found = {}
for _, row in ipairs(instances_of(members)) do
  missing = missing - (is_counted[state_of(row)] and 1 or 0)
  local is_held = not A.node or (row.claimed_by == A.node and row.handed_on ~= row.attempt)
  if is_held and (not A.of or (of and row.of == of.life)) then
    found[#found + 1] = row
  end
end
return { views(found), #members, members[#members] or false, missing }
