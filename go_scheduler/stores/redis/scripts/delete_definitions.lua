-- with: definitions rows instances changing
-- Delete definitions, at once and with all that is not running; answer what ran of each.
local deleted = {}
fetch_ids(A.ids)
for _, id in ipairs(A.ids) do
  local of = by_id(id)
  if of then
    deleted[#deleted + 1] = { id, delete(of) }
  end
  forget_tombstone(id)
end
return done(deleted)
