-- What nodes have told, of those seen since a moment ago.
local found, since = {}, plus(now, -A.within)
local read = call('HGETALL', P .. 'nodes')
for n = 1, #read, 2 do
  if sub(read[n + 1], 19, 36) >= since then
    found[#found + 1] = { read[n], read[n + 1] }
  end
end
return found
