-- with: definitions
-- A page of the definitions that fire soon.
local from = A.after and '(' .. A.after or '-'
local to = '[' .. plus(now, A.ahead) .. '~'
local found = {}
local page = call('ZRANGEBYLEX', P .. 'due', from, to, 'LIMIT', 0, A.limit)
for n, member in ipairs(page) do
  found[n] = definition_view(by_id(id_of(member)))
end
return found
