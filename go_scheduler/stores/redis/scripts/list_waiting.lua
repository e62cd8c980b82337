-- with: definitions rows instances
-- What can be claimed, or will be when it is due, earliest due first.
local lists = {}
for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  for priority = 0, 3 do
    lists[#lists + 1] = up_to('p:' .. priority .. ':' .. queue, NEVER, A.limit)
  end
end
return views(instances_of(#lists > 0 and merged(lists, A.limit) or {}))
