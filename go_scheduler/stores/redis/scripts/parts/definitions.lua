-- Definitions: a hash for each life of an id, and the sorted sets that find them.
local DEFINITION = {
  'id', 'queue', 'priority', 'expire_after', 'next_fire_time', 'paused', 'note',
  'paused_at', 'completed_at', 'revision', 'named', 'owner', 'pause_since',
  'pause_until', 'pause_note', 'name', 'metadata', 'trigger_kind', 'trigger_state',
  'policies',
}
-- What a script needs of them that answers nothing of them, and says so.
local BRIEF = {
  'id', 'queue', 'priority', 'expire_after', 'next_fire_time', 'paused',
  'completed_at', 'revision', 'waits', 'overlap', 'lock', 'gone',
}
local lives, brief = {}, false

local function read_briefly(life)
  local values = redis.pcall('HMGET', P .. 'd:' .. life, unpack(BRIEF))
  local found = values[1] and { life = life }
  for n, name in ipairs(found and BRIEF or {}) do
    found[name] = values[n] or nil
  end
  return found
end

local function read_whole(life)
  local values = hash_of('d:' .. life)
  local found = #values > 0 and { life = life }
  for n = 1, #values, 2 do
    found[values[n]] = values[n + 1]
  end
  return found
end

-- The definition of a life, or false.
local function definition(life)
  local found = lives[life]
  if found == nil then
    found = brief and read_briefly(life) or not brief and read_whole(life)
    if found then
      found.revision = tonumber(found.revision)
    end
    -- What somebody has broken by hand is left alone, as if it were not there.
    found = found and found.id and found.queue and found.priority and found
    lives[life] = found or false
  end
  return found
end

local function by_id(id)
  local life = call('HGET', P .. 'ids', id)
  return life and definition(life)
end

-- What is answered of a definition.
local function definition_view(of)
  local view = { of.life }
  for n, name in ipairs(DEFINITION) do
    view[n + 1] = of[name] or false
  end
  return view
end

-- The views of the definitions of members, but for what somebody has removed by hand.
local function views_of(members)
  local views = {}
  for _, member in ipairs(members) do
    local of = by_id(id_of(member))
    views[#views + 1] = of and definition_view(of) or nil
  end
  return views
end

local function definition_views(found)
  local views = {}
  for n, each in ipairs(found) do
    views[n] = definition_view(each)
  end
  return views
end

local function note_idle(of)
  if of.completed_at and call('EXISTS', P .. 'di:' .. of.life) == 0 then
    call('ZADD', P .. 'idle', 0, of.completed_at .. of.id)
  end
end

local function note_busy(of)
  if of.completed_at then
    call('ZREM', P .. 'idle', of.completed_at .. of.id)
  end
end

local function list(of)
  if of.next_fire_time and not of.paused then
    enlist('due', of.next_fire_time .. of.id)
  end
  enlist('soon', (of.next_fire_time or NEVER) .. of.id)
  note_idle(of)
end

local function unlist(of)
  if of.next_fire_time then
    delist('due', of.next_fire_time .. of.id)
  end
  delist('soon', (of.next_fire_time or NEVER) .. of.id)
  note_busy(of)
end

-- Change fields of a definition.
local function change(of, values)
  unlist(of)
  write(P .. 'd:' .. of.life, of, values)
  list(of)
end

-- The sorted sets of ids that it stands in, by what it has.
local function facets(of)
  return of.facets and cjson.decode(of.facets) or {}
end

local function enter_facets(of)
  for _, each in ipairs(facets(of)) do
    call('ZADD', P .. 'f:' .. each, 0, of.id)
  end
  if of.owner then
    call('ZADD', P .. 'f:owner ' .. of.owner, 0, of.id)
  end
  if of.name then
    call('ZADD', P .. 'names', 0, of.name .. '\0' .. of.id)
  end
end

local function leave_facets(of)
  for _, each in ipairs(facets(of)) do
    call('ZREM', P .. 'f:' .. each, of.id)
  end
  if of.owner then
    call('ZREM', P .. 'f:owner ' .. of.owner, of.id)
  end
  if of.name then
    call('ZREM', P .. 'names', of.name .. '\0' .. of.id)
  end
end

-- Make what its instances take with them from what it says now.
local function overlap_of(of, fired)
  if of.overlap == 'allow' or (fired and of.waits) then
    return nil
  end
  return of.overlap
end

local function slot_of_its_own(id)
  return concat({
    sub(id, 1, 8), sub(id, 9, 12), sub(id, 13, 16), sub(id, 17, 20), sub(id, 21),
  }, '-')
end

local function slot_of(of, fired, backfilled)
  if of.lock then
    return 'lock ' .. of.lock
  end
  local excludes
  if backfilled then
    excludes = backfilled ~= 'allow'
  else
    excludes = overlap_of(of, fired)
  end
  return excludes and slot_of_its_own(of.id) or nil
end
