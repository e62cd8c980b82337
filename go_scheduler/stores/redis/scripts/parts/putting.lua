-- How definitions are put, as was decided by what had been read.
local function is_as_read(plan)
  local of = by_id(plan.id)
  if plan.revision then
    return of and of.revision == plan.revision
      and of.owner == plan.owner and of.note == plan.note
      and (plan.action ~= 'rescheduled' or of.next_fire_time == plan.next_fire_time)
  end
  local remembered = plan.looked and call('HGET', P .. 't:' .. plan.id, 'revision')
  return not of and (remembered or nil) == plan.remembered
end

local function all_as_read(plans)
  fetch_ids(ids_of(plans))
  for _, plan in ipairs(plans) do
    if not is_as_read(plan) then
      return false
    end
  end
  return true
end

local function create(plan)
  if plan.looked then
    forget_tombstone(plan.id)
  end
  local life = tostring(call('INCR', P .. 'life'))
  local of = { life = life }
  plan.values.revision = tonumber(call('GET', P .. 'first') or 1)
  alter(of, plan.values)
  lives[life], life_of[of.id] = of, life
  call('HSET', P .. 'ids', of.id, life)
  relist(NOWHERE, times_of(of))
  relist(NOWHERE, facets_of(of))
  note_idle(of)
  return of
end

-- Put what was planned; nil: it has ended before.
local function put(plan)
  if plan.action == 'over' then
    return nil
  end
  if plan.action == 'new' then
    return create(plan)
  end
  local of = by_id(plan.id)
  if plan.action == 'kept' then
    local facets = facets_of(of)
    alter(of, plan.values)
    relist(facets, facets_of(of))
    return of
  end
  if plan.action == 'rescheduled' then
    local begun = discard(of)
    if begun or plan.goes_back then
      alter(of, { fired_until = begun or false })
    end
    if plan.skipped then
      record(of, plan.skipped)
    end
  elseif plan.takes_back then
    take_back(of)
  end
  plan.values.revision = (of.revision or 0) + 1
  replace(of, plan.values)
  return of
end
