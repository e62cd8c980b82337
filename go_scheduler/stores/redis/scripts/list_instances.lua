-- with: definitions rows instances
-- A page of instances, of some sorted sets together, between two places.
local sets, lists, all, page = A.sets, {}, {}, {}
local of = A.of and by_id(A.of)
if A.of then
  sets = of and { A.set .. of.life } or {}
end
local from, to = A.from, A.to
if of and A.key then
  -- Of all its instances at most one has it.
  local known = call('HGET', P .. 'dk:' .. of.life, A.key)
  local row = known and instance(known)
  local member = row and row.execute_at .. known
  local is_after = sub(from, 1, 1) == '(' and member and member <= sub(from, 2)
  local is_before = member and '[' .. member < '[' .. sub(from, 2)
  local is_behind = member and sub(to, 1, 1) == '(' and member >= sub(to, 2)
  sets = {}
  if member and not is_after and not is_before and not is_behind then
    all[1] = member
  end
end
for n, key in ipairs(sets) do
  if A.newest then
    lists[n] = call('ZREVRANGEBYLEX', P .. key, to, from, 'LIMIT', 0, A.limit)
  else
    lists[n] = call('ZRANGEBYLEX', P .. key, from, to, 'LIMIT', 0, A.limit)
  end
end
for _, each in ipairs(lists) do
  for _, member in ipairs(each) do
    all[#all + 1] = member
  end
end
if #lists > 1 then
  table.sort(all, function(one, other)
    if A.newest then
      return one > other
    end
    return one < other
  end)
end
for n = 1, math.min(#all, A.limit) do
  page[n] = all[n]
end
return { views(instances_of(page)), #page, page[#page] or false }
