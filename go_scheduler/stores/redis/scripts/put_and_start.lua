-- with: definitions rows instances firing changing putting claiming
-- Put one definition as planned, and have it fire and start if it is new.
local plan = A.plan
if not is_as_read(plan) then
  return false
end
local of = put(plan)
if plan.action ~= 'new' then
  hint('d', of and of.next_fire_time)
  return done({ of and definition_view(of) or false })
end
local view = definition_view(of)
A.firing.revision = of.revision
local made = fire(A.firing)
start_made(made)
return done({ view, views(made) })
