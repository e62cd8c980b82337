-- with: definitions rows instances firing changing putting
-- Put what was planned, if all that was read is as it was.
if not all_as_read(A.plans) then
  return false
end
local answer = {}
for n, plan in ipairs(A.plans) do
  local of = put(plan)
  answer[n] = of and definition_view(of) or false
  hint('d', of and of.next_fire_time)
end
return done(answer)
