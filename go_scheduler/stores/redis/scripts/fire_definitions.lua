-- with: definitions rows instances firing
-- Create the instances of each firing, and move its definition on.
local lost = {}
fetch_ids(ids_of(A.firings))
for _, firing in ipairs(A.firings) do
  if not fire(firing) then
    lost[#lost + 1] = firing.id
  end
end
return done(lost)
