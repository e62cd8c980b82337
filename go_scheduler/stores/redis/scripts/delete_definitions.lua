-- with: definitions rows instances changing
-- Delete definitions, at once and with all that is not running.
local deleted = {}
for _, id in ipairs(A.ids) do
  local of = by_id(id)
  if of then
    delete(of)
    deleted[#deleted + 1] = id
  end
  forget_tombstone(id)
end
return done(deleted)
