-- with: definitions rows instances
-- Make failed instances run again, the latest of those that exclude each other.
local failed, reopened = {}, {}
for _, row in ipairs(instances_of(A.ids)) do
  if row.outcome == 'failed' and not definition(row.of).gone then
    failed[#failed + 1] = row
  end
end
table.sort(failed, function(one, other)
  return one.execute_at .. one.id > other.execute_at .. other.id
end)
for _, row in ipairs(failed) do
  local of = definition(row.of)
  local waits = of.waits and is_fired(row)
  if waits then
    -- Of such a definition a single instance is open at a time.
    write_lists()
  end
  if not waits or not has_open_fired(of) then
    if waits then
      change(of, { next_fire_time = false, completed_at = false })
    end
    row.reopened_at = now
    reopen(row, now)
    reopened[#reopened + 1] = row.id
  end
end
hint('i', reopened[1] and now)
return done(reopened)
