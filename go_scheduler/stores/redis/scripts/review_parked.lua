-- with: definitions rows instances ending
-- Go over what is parked, and let go on or end what can.
local skipped, replaced, unparked = {}, {}, {}

local function met(row)
  local former = row.behind and instance(row.behind)
  return former and former.of == row.of and former.completed_at
    and former.completed_at >= row.due_at
end

local function skip(row, reason)
  row.skipped_reason = reason
  finish(row, 'skipped')
  skipped[#skipped + 1] = row
end

-- Those of the same definition that wait for the same slot, and may do so: read once,
-- and kept as they are judged.
local alike = {}
local function waiting(like)
  local kind = concat({ like.slot, like.of, like.backfilled and 'backfilled' or '' }, ' ')
  if alike[kind] then
    return alike[kind]
  end
  local found = {}
  alike[kind] = found
  for _, row in ipairs(instances_of(call('ZRANGE', P .. 'w:' .. like.slot, 0, -1))) do
    local is_alike = row.of == like.of and not row.overlap
    if is_alike and (not row.backfilled) == (not like.backfilled) then
      found[#found + 1] = row
    end
  end
  return found
end

local function stop(row)
  if not definition(row.of).waits then
    cancel(row)
  else
    -- Whoever ends it says when its definition fires next.
    row.cancel_requested = '1'
    save(row)
  end
  replaced[#replaced + 1] = row
end

local function judge(row)
  local had = holder(row.slot)
  local runs = had and had.of == row.of
  local others = waiting(row)
  local number = #others >= A.most and 'many' or #others > 0 and 'some' or 'none'
  local is_met = runs or met(row)
  local fate = A.fates[row.overlap .. (is_met and ' met ' or ' free ') .. number]
  if fate.replaces then
    for n = 1, #others do
      skip(others[n], A.replaced)
      others[n] = nil
    end
  end
  if fate.reason then
    skip(row, fate.reason)
  else
    row.overlap = nil
    save(row)
    others[#others + 1] = row
  end
  if fate.stops and runs and not had.cancel_requested then
    stop(had)
  end
end

-- A thousand at a time: the next call goes on with those that are left.
local undecided, more = {}, false
for _, row in ipairs(instances_of(up_to('undecided', now, 1000 + A.limit))) do
  if #undecided == A.limit then
    more = true
    break
  end
  if holder(row.slot) or met(row) then
    undecided[#undecided + 1] = row
  end
end
for _, row in ipairs(undecided) do
  judge(row)
end
write_lists()
local free = call('ZRANGEBYSCORE', P .. 'parked', 0, 0, 'LIMIT', 0, A.limit)
for _, slot in ipairs(free) do
  local member = call('ZRANGE', P .. 'w:' .. slot, 0, 0)[1]
  local row = member and instance(id_of(member))
  if member and not row then
    set_aside('w:' .. slot, member)
  elseif row and not (row.overlap and row.due_at <= now and met(row)) then
    row.parked = nil
    save(row)
    unparked[#unparked + 1] = row
  end
end
write_lists()
return done({
  views(unparked), views(skipped), views(replaced),
  call('EXISTS', P .. 'parked'), (more or #free == A.limit) and 1 or 0,
})
