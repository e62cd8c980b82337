-- with: definitions rows instances
-- Instances that have a key, of definitions that are there.
local found = {}
local from, to = '[' .. A.key .. '\0', '[' .. A.key .. '\0~'
for _, member in ipairs(call('ZRANGEBYLEX', P .. 'keys', from, to, 'LIMIT', 0, A.most)) do
  local row = instance(id_of(member))
  if #found < A.limit and not definition(row.of).gone then
    found[#found + 1] = row
  end
end
return views(found)
