-- Definitions: a text for each life of an id, another of its contents, which only Python
-- reads, and the sorted sets that find them.
-- By their lives the definitions, and the texts of their contents; lives by their ids.
local lives, contents, life_of = {}, {}, {}
-- Of a definition whether it is to be written, and as which text it was read.
local altered, read_as = {}, {}
local COUNTS = { revision = true, max_queue = true }

-- Read definitions that have not been read, all at once.
local function fetch_lives(wanted)
  local unread = {}
  for _, life in ipairs(wanted) do
    if lives[life] == nil then
      lives[life], unread[#unread + 1] = false, life
    end
  end
  for n, text in ipairs(texts_of('d:', unread)) do
    local found = object_of(text) or {}
    found.life = unread[n]
    found.revision, found.max_queue = tonumber(found.revision), tonumber(found.max_queue)
    -- What somebody has broken by hand is left alone, as if it were not there.
    if found.id and found.queue and found.priority and has_types(found, COUNTS) then
      lives[found.life], read_as[found] = found, text
    end
  end
end

-- The definition of a life, or false.
local function definition(life)
  if lives[life] == nil then
    fetch_lives({ life })
  end
  return lives[life]
end

-- Read those of ids that have not been read, all at once.
local function fetch_ids(ids)
  local unread, wanted = {}, {}
  for _, id in ipairs(ids) do
    if life_of[id] == nil then
      life_of[id], unread[#unread + 1] = false, id
    end
  end
  for first = 1, #unread, 1000 do
    local last = math.min(first + 999, #unread)
    for n, life in ipairs(call('HMGET', P .. 'ids', unpack(unread, first, last))) do
      life_of[unread[first + n - 1]] = life
      wanted[#wanted + 1] = life or nil
    end
  end
  fetch_lives(wanted)
end

local function by_id(id)
  if life_of[id] == nil then
    fetch_ids({ id })
  end
  return life_of[id] and definition(life_of[id])
end

-- What is answered of definitions: their lives, and their texts.
local function definition_views(found)
  local unread, views = {}, {}
  for _, of in ipairs(found) do
    unread[#unread + 1] = contents[of.life] == nil and of.life or nil
  end
  for n, text in ipairs(texts_of('c:', unread)) do
    contents[unread[n]] = text
  end
  for n, of in ipairs(found) do
    views[n] = { of.life, read_as[of] or cjson.encode(of), contents[of.life] }
  end
  return views
end

local function definition_view(of)
  return definition_views({ of })[1]
end

-- The views of the definitions of members, but for what somebody has removed by hand.
local function views_of(members)
  local ids, found = ids_in(members), {}
  fetch_ids(ids)
  for _, id in ipairs(ids) do
    found[#found + 1] = by_id(id) or nil
  end
  return definition_views(found)
end

-- Give a definition other values; false: none.
local function alter(of, values)
  for name, value in pairs(values) do
    if name == 'contents' then
      contents[of.life] = value
      keep_text('c:', of.life, value)
    else
      of[name] = value or nil
    end
  end
  altered[of], read_as[of] = true, nil
end

local function write_altered()
  for of in pairs(altered) do
    keep_text('d:', of.life, cjson.encode(of))
  end
end

local function note_idle(of, has_some)
  if of.completed_at and not has_some and call('EXISTS', P .. 'di:' .. of.life) == 0 then
    call('ZADD', P .. 'idle', 0, of.completed_at .. of.id)
  end
end

local function note_busy(of)
  if of.completed_at then
    call('ZREM', P .. 'idle', of.completed_at .. of.id)
  end
end

local function list(of, has_some)
  if of.next_fire_time and not of.paused then
    enlist('due', of.next_fire_time .. of.id)
  end
  enlist('soon', (of.next_fire_time or NEVER) .. of.id)
  note_idle(of, has_some)
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
  alter(of, values)
  list(of)
end

-- The lines of its contents: the trigger's state, metadata, policies, facets.
local function contents_of(of)
  local lines = {}
  for line in string.gmatch(definition_view(of)[3] or '', '[^\n]+') do
    lines[#lines + 1] = line
  end
  return lines
end

-- The sorted sets of ids that it stands in, by what it has.
local function facets(of)
  local found = {}
  for _, each in ipairs(object_of(contents_of(of)[4]) or {}) do
    found[#found + 1] = type(each) == 'string' and each or nil
  end
  return found
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
