-- with: definitions rows instances ending
-- Cancel what has not started; ask what runs to stop.
local answer = {}
fetch(A.ids)
for _, id in ipairs(A.ids) do
  local row = instance(id)
  if row and not row.outcome then
    answer[#answer + 1] = { id, cancel(row, A.next_fire_times[id]) }
  end
end
return done(answer)
