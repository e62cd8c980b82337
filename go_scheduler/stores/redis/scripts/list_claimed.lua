-- with: definitions rows instances
-- A page of what a node has claimed and has not ended.
local from = A.after and '(' .. A.after or '-'
local found = {}
local page = call('ZRANGEBYLEX', P .. 'n:' .. A.node, from, '+', 'LIMIT', 0, A.limit)
for n, id in ipairs(page) do
  found[n] = instance(id)
end
return views(found)
