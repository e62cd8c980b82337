-- with: definitions rows instances firing claiming
-- Create the instances of each firing, and move its definition on; for a node, start
-- what is made.
local lost, started = {}, {}
fetch_ids(ids_of(A.firings))
for _, firing in ipairs(A.firings) do
  local made = fire(firing)
  if not made then
    lost[#lost + 1] = firing.id
  end
  for _, row in ipairs(A.claimant and made or {}) do
    started[#started + 1] = row
  end
end
start_made(started)
return done({ lost, views(started) })
