-- with: definitions rows instances changing
-- End pauses.
local found = all_by_id(A.ids)
for _, of in ipairs(found) do
  resume(of)
end
return done(definition_views(found))
