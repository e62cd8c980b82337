-- What was counted of minutes, or of hours, that begin between two times.
local found = {}
local members = call('ZRANGEBYLEX', P .. 's:' .. A.every, '[' .. A.since, '(' .. A['until'])
for n, member in ipairs(members) do
  found[n] = { member, call('HGET', P .. 'v:' .. A.every, member) }
end
return found
