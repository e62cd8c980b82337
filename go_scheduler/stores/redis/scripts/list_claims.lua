-- with: definitions rows instances
-- What nodes hold and run, those first whose claims expire first.
local lists, found = {}, {}
for n, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  lists[n] = up_to('l:' .. queue, NEVER, A.limit)
end
for n, member in ipairs(#lists > 0 and merged(lists, A.limit) or {}) do
  found[n] = instance(id_of(member))
end
return views(found)
