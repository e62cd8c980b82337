-- with: definitions rows instances claiming
-- Record that handlers are about to be called; park what does not get its slot.
local found = {}
fetch(ids_of(A.claims))
for _, each in ipairs(A.claims) do
  found[#found + 1] = current(each)
end
local function turn(row)
  return row.priority .. row.due_at .. row.execute_at .. row.id
end
table.sort(found, function(one, other)
  return turn(one) < turn(other)
end)
for _, row in ipairs(found) do
  local had = not row.started_at and row.slot and call('HGET', P .. 'slots', row.slot)
  if had and had ~= row.id then
    row.parked, row.behind = '1', had
    give_back(row, row.due_at)
  elseif not row.started_at then
    if row.slot and not had then
      call('HSET', P .. 'slots', row.slot, row.id)
      touched[row.slot] = true
    end
    start(row)
    save(row)
  end
end
return done(views(found))
