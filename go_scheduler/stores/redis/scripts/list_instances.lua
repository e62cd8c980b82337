-- with: definitions rows instances
-- A page of instances, of some sorted sets together, between two places.
local sets, of = A.sets or {}, A.of and by_id(A.of)
for _, queue in ipairs(A.by_queue and call('SMEMBERS', P .. 'queues') or {}) do
  for _, kind in ipairs(A.by_queue) do
    sets[#sets + 1] = kind .. queue
  end
end
local limit = A.limit
if of then
  sets[1] = A.own .. of.life
  if A.among and call('ZCARD', P .. A.among) < call('ZCARD', P .. sets[1]) then
    -- Few of them may be its own.
    sets[1], limit = A.among, math.max(limit, 500)
  end
end
local command, first, last = 'ZRANGEBYLEX', A.first, A.last
if A.descending then
  command, first, last = 'ZREVRANGEBYLEX', A.last, A.first
end
local lists = {}
for n, key in ipairs(sets) do
  lists[n] = call(command, P .. key, first, last, 'LIMIT', 0, limit)
end
local members = merged(lists, limit, function(one, other)
  if A.descending then
    return one > other
  end
  return one < other
end)
local found = {}
for _, row in ipairs(instances_of(members)) do
  local is_held = not A.node or (row.claimed_by == A.node and row.handed_on ~= row.attempt)
  if is_held and (not of or row.of == of.life) then
    found[#found + 1] = row
  end
end
-- Where the next page goes on.
return { views(found), #members >= limit and members[#members] or false }
