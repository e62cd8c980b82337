-- with: definitions rows instances
-- Make instances for fire times of a definition that have none.
local of = by_id(A.of)
if not of then
  return { false }
end
if of.revision ~= A.revision then
  return { of.revision }
end
local made = {}
for _, each in ipairs(A.fire_times) do
  local fire_time, new_id = unpack(each)
  local id = fired_at(of, fire_time)
  local row = id and instance(id)
  if not row then
    row = new(new_id, of, fire_time, fire_time, A.overlap)
    row.trace_context = A.trace_context
    add(row)
    made[#made + 1] = fire_time
  elseif row.outcome == 'skipped' and not row.backfilled then
    row.backfilled, row.trace_context = A.overlap, A.trace_context
    row.skipped_first, row.skipped_last = nil, nil
    row.skipped_count, row.skipped_reason = nil, nil
    reopen(row, row.execute_at)
    follow(row)
    save(row)
    made[#made + 1] = fire_time
  end
end
hint('i', made[1])
return done({ of.revision, made })
