-- The counts of the minutes that begin between two times.
local found = {}
local members = call('ZRANGEBYLEX', P .. 'stats', '[' .. A.since, '(' .. A['until'])
for n, member in ipairs(members) do
  found[n] = { member, call('HGET', P .. 'counted', member) }
end
return found
