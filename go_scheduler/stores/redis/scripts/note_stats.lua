-- Keep what a node has counted, in the place of what it had counted of the same.
for _, each in ipairs(A.stats) do
  local member = each.at .. each.queue .. '\0' .. A.node
  call('ZADD', P .. 's:' .. each.every, 0, member)
  call('HSET', P .. 'v:' .. each.every, member, each.value)
end
return 1
