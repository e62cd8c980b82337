-- with: definitions rows instances
-- How many instances are in each state; of a definition, how many have not begun.
local of = A.of and by_id(A.of)
local unstarted, found = of and count_unstarted(of) or {}, {}
for n, state in ipairs(A.states) do
  found[n] = A.of and (unstarted[state] or 0) or call('ZCARD', P .. 'x:' .. state)
end
return found
