-- with: definitions
-- Definitions whose name begins with a text, in the order of their ids.
local from, to = '[' .. A.prefix, '[' .. A.prefix .. '\255'
local ids = ids_in(call('ZRANGEBYLEX', P .. 'names', from, to, 'LIMIT', 0, A.most))
table.sort(ids)
return views_of({ unpack(ids, 1, math.min(#ids, A.limit)) })
