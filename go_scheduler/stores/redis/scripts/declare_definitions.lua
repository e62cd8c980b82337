-- with: definitions rows instances firing changing putting
-- Put what was planned, and take away or pause what the owner has besides.
local version = call('HGET', P .. 'sets', A.owner) or nil
if version ~= A.version or not all_as_read(A.plans) then
  return false
end
call('HSET', P .. 'sets', A.owner, A.declared)
local put_ones, resumed, deleted, paused, kept = {}, {}, {}, {}, {}
local lives_put = {}
for n, plan in ipairs(A.plans) do
  kept[plan.id] = true
  lives_put[n] = put(plan) or false
end
for n, plan in ipairs(A.plans) do
  local of = lives_put[n]
  if plan.resumes then
    resume(of)
    resumed[#resumed + 1] = of
  end
  put_ones[n] = of and definition_view(of) or false
  hint('d', of and of.next_fire_time)
end
if A.removed ~= 'keep' then
  for _, id in ipairs(call('ZRANGE', P .. 'f:owner ' .. A.owner, 0, -1)) do
    local of = not kept[id] and by_id(id)
    if of and A.removed == 'delete' then
      delete(of)
      forget_tombstone(id)
      deleted[#deleted + 1] = id
    elseif of and not of.paused then
      pause(of, A.note)
      paused[#paused + 1] = of
    end
  end
end
return done({ put_ones, definition_views(resumed), deleted, definition_views(paused) })
