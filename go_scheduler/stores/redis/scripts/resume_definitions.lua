-- with: definitions rows instances changing
-- End pauses.
local found = {}
for _, id in ipairs(A.ids) do
  local of = by_id(id)
  if of then
    resume(of)
    found[#found + 1] = of
  end
end
return done(definition_views(found))
