-- with: definitions rows instances
-- Make failed instances run again, the latest of those that exclude each other.
local failed, reopened = {}, {}
for _, id in ipairs(A.ids) do
  local row = instance(id)
  if row and row.outcome == 'failed' and not definition(row.of).gone then
    failed[#failed + 1] = row
  end
end
table.sort(failed, function(one, other)
  return one.execute_at .. one.id > other.execute_at .. other.id
end)
for _, row in ipairs(failed) do
  local of = definition(row.of)
  local waits = of.waits and is_fired(row)
  if not waits or call('SCARD', P .. 'do:' .. of.life) == 0 then
    if waits then
      change(of, { next_fire_time = false, completed_at = false })
    end
    begin_anew(row)
    row.reopened_at = now
    save(row)
    reopened[#reopened + 1] = row.id
  end
end
hint('i', reopened[1] and now)
return done(reopened)
