-- with: definitions
-- Definitions whose name begins with a text, in the order of their ids.
local from, to = '[' .. A.prefix, '[' .. A.prefix .. '\255'
local ids, found = {}, {}
for n, member in ipairs(call('ZRANGEBYLEX', P .. 'names', from, to, 'LIMIT', 0, A.most)) do
  ids[n] = id_of(member)
end
table.sort(ids)
for n = 1, math.min(#ids, A.limit) do
  found[n] = ids[n]
end
return views_of(found)
