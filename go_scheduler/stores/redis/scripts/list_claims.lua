-- with: definitions rows instances
-- What nodes hold and run, those first whose claims expire first.
local lists = {}
for n, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  lists[n] = up_to('l:' .. queue, NEVER, A.limit)
end
return views(instances_of(#lists > 0 and merged(lists, A.limit) or {}))
