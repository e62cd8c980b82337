-- with: definitions rows instances
-- Give back what was claimed and not called.
local released = {}
fetch(ids_of(A.releases))
for _, each in ipairs(A.releases) do
  local row = current(each)
  if row then
    if row.started_at then
      row.runs = row.runs - 1
    end
    if row.runs == 0 then
      free_slot(row)
    end
    local due_at = row.due_at
    if each.delay > 0 then
      due_at = later(due_at, plus(now, each.delay))
    end
    give_back(row, due_at, each.reason)
    released[#released + 1] = row.id
  end
end
return done(released)
