-- The queues in which something is due that nobody has claimed: how much of it, and
-- since when. What has nothing is looked at no more.
local queues, found = call('SMEMBERS', P .. 'queues'), {}
table.sort(queues)
for _, queue in ipairs(queues) do
  local number, oldest, is_used = 0, NEVER, call('EXISTS', P .. 'l:' .. queue) == 1
  for priority = 0, 3 do
    local key = P .. 'p:' .. priority .. ':' .. queue
    local first = call('ZRANGE', key, 0, 0)[1]
    is_used = is_used or first
    if first and sub(first, 1, 18) <= now then
      number = number + call('ZLEXCOUNT', key, '-', '[' .. now .. '~')
      oldest = sub(first, 1, 18) < oldest and sub(first, 1, 18) or oldest
    end
  end
  if not is_used then
    call('SREM', P .. 'queues', queue)
  elseif number > 0 then
    found[#found + 1] = { queue, number, oldest }
  end
end
return found
