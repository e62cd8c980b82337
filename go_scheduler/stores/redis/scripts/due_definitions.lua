-- with: definitions
-- A page of the definitions that fire soon.
local from = A.after and '(' .. A.after or '-'
local to = '[' .. plus(now, A.ahead) .. '~'
return views_of(call('ZRANGEBYLEX', P .. 'due', from, to, 'LIMIT', 0, A.limit))
