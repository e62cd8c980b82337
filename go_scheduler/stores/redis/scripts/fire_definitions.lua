-- with: definitions rows instances firing
-- Create the instances of each firing, and move its definition on.
local won = {}
fetch_fired(A.firings)
for _, firing in ipairs(A.firings) do
  if fire(firing) then
    won[#won + 1] = firing.id
  end
end
return done(won)
