-- with: definitions rows instances firing changing putting claiming
-- Put what was planned, if all that was read is as it was. What is new and has a firing
-- fires and is started.
if not all_as_read(A.plans) then
  return false
end
local answer, started = {}, {}
for n, plan in ipairs(A.plans) do
  local of = put(plan)
  answer[n] = of and definition_views({ of })[1] or false
  local firing = plan.action == 'new' and A.firings[plan.id]
  if firing then
    firing.revision = of.revision
    for _, row in ipairs(fire(firing)) do
      started[#started + 1] = row
    end
  else
    hint('d', of and of.next_fire_time)
  end
end
start_made(started)
return done({ answer, views(started) })
