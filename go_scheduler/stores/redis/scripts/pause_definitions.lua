-- with: definitions rows instances changing
-- Pause definitions, so that nothing of theirs starts.
local found = {}
for _, id in ipairs(A.ids) do
  local of = by_id(id)
  if of then
    pause(of, A.note)
    found[#found + 1] = of
  end
end
return done(definition_views(found))
