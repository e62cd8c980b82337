-- with: definitions rows instances
-- Instances that have a key, of definitions that are there.
local found = {}
local from, to = '[' .. A.key .. '\0', '[' .. A.key .. '\0~'
local page = call('ZRANGEBYLEX', P .. 'keys', from, to, 'LIMIT', 0, A.most)
for _, row in ipairs(instances_of(page)) do
  if #found < A.limit and not definition(row.of).gone then
    found[#found + 1] = row
  end
end
return views(found)
