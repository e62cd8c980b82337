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
  if beside and call('ZCARD', P .. beside) < call('ZCARD', P .. own) then
    own = beside
  end
  sets = { own }
end

local all = {}
for _, key in ipairs(sets) do
  local found
  if A.descending then
    found = call('ZREVRANGEBYLEX', P .. key, A.to, A.from, 'LIMIT', 0, A.limit)
  else
    found = call('ZRANGEBYLEX', P .. key, A.from, A.to, 'LIMIT', 0, A.limit)
  end
  for _, member in ipairs(found) do
    all[#all + 1] = member
  end
end
if #sets > 1 then
  table.sort(all, function(one, other)
    if A.descending then
      return one > other
    end
    return one < other
  end)
end
for n = #all, A.limit + 1, -1 do
  all[n] = nil
end

local missing, counted_states = 0, {}
for _, state in ipairs(A.counted or {}) do
  missing = missing + (tonumber(call('HGET', P .. 'counts', state)) or 0)
  counted_states[state] = true
end
local found = {}
for _, row in ipairs(instances_of(all)) do
  missing = missing - (counted_states[state_of(row)] and 1 or 0)
  if not A.of or (of and row.of == of.life) then
    found[#found + 1] = row
  end
end
return { views(found), #all, all[#all] or false, missing }
