-- Keep the counts of a node, in place of its earlier counts of the same minute and queue.
for _, each in ipairs(A.stats) do
  local member = each.at .. each.queue .. '\0' .. A.node
  call('ZADD', P .. 'stats', 0, member)
  call('HSET', P .. 'counted', member, each.value)
end
return 1
