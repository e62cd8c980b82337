-- with: definitions rows instances claiming
-- Record that handlers are about to be called; park what does not get its slot.
local found = {}
fetch(ids_of(A.claims))
for _, each in ipairs(A.claims) do
  local row = current(each)
  if row then
    found[#found + 1] = row
  end
end
local function turn(row)
  return row.priority .. row.due_at .. row.execute_at .. row.id
end
table.sort(found, function(one, other)
  return turn(one) < turn(other)
end)
for _, row in ipairs(found) do
  if not row.started_at then
    local had = row.slot and call('HGET', P .. 'slots', row.slot)
    if had and had ~= row.id then
      row.parked, row.behind = '1', had
      give_back(row, row.due_at)
    else
      if row.slot and not had then
        call('HSET', P .. 'slots', row.slot, row.id)
        touch(row.slot)
      end
      start(row)
      save(row)
    end
  end
end
return done(views(found))
