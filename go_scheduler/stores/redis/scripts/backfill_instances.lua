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
  local id = fired_at(of, each[1])
  local row = id and instance(id)
  if not row then
    row = new(each[2], of, each[1], each[1], A.overlap)
    row.trace_context = A.trace_context
    add(row)
    made[#made + 1] = each[1]
  elseif row.outcome == 'skipped' and not row.backfilled then
    row.backfilled, row.trace_context = A.overlap, A.trace_context
    row.skipped_first, row.skipped_last = nil, nil
    row.skipped_count, row.skipped_reason = nil, nil
    begin_anew(row)
    row.due_at = row.execute_at
    follow(row)
    save(row)
    made[#made + 1] = each[1]
  end
end
hint('i', made[1])
return done({ of.revision, made })
