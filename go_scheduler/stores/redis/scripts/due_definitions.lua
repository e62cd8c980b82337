-- with: definitions
-- A page of the definitions that fire soon.
local from = A.after and '(' .. A.after or '-'
local to = '[' .. plus(now, A.ahead) .. '~'
local page = call('ZRANGEBYLEX', P .. 'due', from, to, 'LIMIT', 0, A.limit)
local found = all_by_id(ids_in(page))
for _, member in ipairs(page) do
  local id = id_of(member)
  if not by_id(id) then
    -- One that cannot be read would be met by each look, and is taken off the list.
    call('ZREM', P .. 'due', member)
    if life_of[id] then
      call('SADD', P .. 'broken', 'd:' .. life_of[id])
    end
  end
end
return { definition_views(found), page[#page] or false }
