-- with: definitions instances
-- A page of instances, of some sorted sets together.
local sets, lists, found = A.sets, {}, {}
if A.of then
  local of = by_id(A.of)
  sets = of and { A.set .. of.life } or {}
end
for n, key in ipairs(sets) do
  if A.newest then
    lists[n] = call('ZREVRANGEBYLEX', P .. key, A.to, A.from, 'LIMIT', 0, A.limit)
  else
    lists[n] = call('ZRANGEBYLEX', P .. key, A.from, A.to, 'LIMIT', 0, A.limit)
  end
end
local all = {}
for _, each in ipairs(lists) do
  for _, member in ipairs(each) do
    all[#all + 1] = member
  end
end
table.sort(all, function(one, other)
  if A.newest then
    return one > other
  end
  return one < other
end)
for n = 1, math.min(#all, A.limit) do
  found[n] = instance(id_of(all[n]))
end
return { views(found), all[#found] or false }
