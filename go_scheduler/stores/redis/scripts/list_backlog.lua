-- What is due and nobody has claimed, by queue, as far as it is to be counted.
local queues, found = call('SMEMBERS', P .. 'queues'), {}
table.sort(queues)
for _, queue in ipairs(queues) do
  local number, oldest = 0, nil
  for priority = 0, 3 do
    local key = P .. 'p:' .. priority .. ':' .. queue
    number = number + call('ZLEXCOUNT', key, '-', '[' .. now .. '~')
    local first = call('ZRANGE', key, 0, 0)[1]
    if first and (not oldest or first < oldest) then
      oldest = first
    end
  end
  if number > 0 and #found < A.limit then
    found[#found + 1] = { queue, number, sub(oldest, 1, 18) }
  end
end
return found
