-- The queues in which something is due; what has nothing is looked at no more.
local found = {}
for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  local waits, is_due = false, false
  for priority = 0, 3 do
    local first = call('ZRANGE', P .. 'p:' .. priority .. ':' .. queue, 0, 0)[1]
    waits = waits or first
    is_due = is_due or (first and sub(first, 1, 18) <= now)
  end
  if not waits and call('EXISTS', P .. 'l:' .. queue) == 0 then
    call('SREM', P .. 'queues', queue)
  elseif is_due and not A.apart[queue] then
    found[#found + 1] = queue
  end
end
return found
