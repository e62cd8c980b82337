-- with: definitions rows instances changing
-- Pause definitions, so that nothing of theirs starts.
local found = all_by_id(A.ids)
for _, of in ipairs(found) do
  pause(of, A.note)
end
return done(definition_views(found))
