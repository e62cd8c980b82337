-- with: definitions rows instances
-- A page of what a node has claimed and has not ended.
local from = A.after and '(' .. A.after or '-'
local page = call('ZRANGEBYLEX', P .. 'n:' .. A.node, from, '+', 'LIMIT', 0, A.limit)
return views(instances_of(page))
