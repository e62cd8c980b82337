-- with: definitions rows instances firing claiming
-- Fire definitions, and start what they make.
local won, started = {}, {}
fetch_ids(ids_of(A.firings))
for _, firing in ipairs(A.firings) do
  local made = fire(firing)
  if made then
    won[#won + 1] = firing.id
    for _, row in ipairs(made) do
      started[#started + 1] = row
    end
  end
end
start_made(started)
return done({ won, views(started) })
