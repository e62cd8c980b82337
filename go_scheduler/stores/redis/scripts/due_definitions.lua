-- with: definitions
-- A page of the definitions that fire soon.
local from = A.after and '(' .. A.after or '-'
local to = '[' .. plus(now, A.ahead) .. '~'
local page = call('ZRANGEBYLEX', P .. 'due', from, to, 'LIMIT', 0, A.limit)
return { views_of(page), page[#page] or false }
