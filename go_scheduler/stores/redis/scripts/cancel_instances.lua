-- with: definitions rows instances ending
-- Cancel what has not started; ask what runs to stop.
local answer = {}
fetch(ids_of(A.cancellations))
for _, each in ipairs(A.cancellations) do
  local row = instance(each.id)
  if row and not row.outcome then
    answer[#answer + 1] = { row.id, cancel(row, each.next_fire_time) }
  end
end
return done(answer)
