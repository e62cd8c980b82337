-- with: definitions rows instances changing putting
-- Put what was planned, and take away or pause what the owner has besides.
local version = call('HGET', P .. 'sets', A.owner) or nil
if version ~= A.version or not all_as_read(A.plans) then
  return false
end
call('HSET', P .. 'sets', A.owner, A.declared)
local put_ones, resumed, deleted, paused, kept = {}, {}, {}, {}, {}
for n, plan in ipairs(A.plans) do
  local of = put(plan)
  kept[plan.id], put_ones[n] = true, of or false
  if plan.resumes then
    resume(of)
    resumed[#resumed + 1] = of
  end
end
for n, of in ipairs(put_ones) do
  put_ones[n] = of and definition_views({ of })[1]
  hint('d', of and of.next_fire_time)
end
local owned = A.removed ~= 'keep' and call('ZRANGE', P .. 'f:owner ' .. A.owner, 0, -1) or {}
for _, of in ipairs(all_by_id(owned)) do
  if not kept[of.id] and A.removed == 'delete' then
    delete(of)
    forget_tombstone(of.id)
    deleted[#deleted + 1] = of.id
  elseif not kept[of.id] and not of.paused then
    pause(of, A.note)
    paused[#paused + 1] = of
  end
end
return done({ put_ones, definition_views(resumed), deleted, definition_views(paused) })
