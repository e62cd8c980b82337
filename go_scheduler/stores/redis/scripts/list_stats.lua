-- The counts of the minutes that begin between two times.
local found = {}
local members = call('ZRANGEBYLEX', P .. 's:60000000', '[' .. A.since, '(' .. A['until'])
for n, member in ipairs(members) do
  found[n] = { member, call('HGET', P .. 'v:60000000', member) }
end
return found
