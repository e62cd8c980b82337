-- How many instances are in each state.
local found = {}
for n, state in ipairs(A.states) do
  found[n] = call('HGET', P .. 'counts', state) or '0'
end
return found
