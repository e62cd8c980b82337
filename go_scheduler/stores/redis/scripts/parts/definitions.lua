-- Definitions: a text for each life of an id, another of its contents, which only Python
-- reads, and the sorted sets that find them.
-- By their lives the definitions, and the texts of their contents; lives by their ids.
local lives, contents, life_of = {}, {}, {}
local altered = {}
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
      lives[found.life], encoded[found] = found, text
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
      life_of[unread[first + n - 1]], wanted[#wanted + 1] = life, life or nil
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

-- The definitions of ids, those that there are.
local function all_by_id(ids)
  local found = {}
  fetch_ids(ids)
  for _, id in ipairs(ids) do
    found[#found + 1] = by_id(id) or nil
  end
  return found
end

local function fetch_contents(found)
  local unread = {}
  for _, of in ipairs(found) do
    unread[#unread + 1] = contents[of.life] == nil and of.life or nil
  end
  for n, text in ipairs(texts_of('c:', unread)) do
    contents[unread[n]] = text
  end
end

-- What is answered of definitions: their lives, and their texts.
local function definition_views(found)
  local views = {}
  fetch_contents(found)
  for n, of in ipairs(found) do
    views[n] = { of.life, text_of(of), contents[of.life] }
  end
  return views
end

-- The lines of its contents: the trigger's state, metadata, policies, facets.
local function contents_of(of)
  local lines = {}
  fetch_contents({ of })
  for line in string.gmatch(contents[of.life] or '', '[^\n]+') do
    lines[#lines + 1] = line
  end
  return lines
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
  altered[of], encoded[of] = true, nil
end

-- The sorted sets in which it stands by its times, and as what.
local function times_of(of)
  return {
    soon = (of.next_fire_time or NEVER) .. of.id,
    due = of.next_fire_time and not of.paused and of.next_fire_time .. of.id or nil,
  }
end

-- The same by what else it is looked for.
local function facets_of(of)
  local found = { all = of.id, names = of.name and of.name .. '\0' .. of.id }
  for _, each in ipairs(object_of(contents_of(of)[4]) or {}) do
    if type(each) == 'string' then
      found['f:' .. each] = of.id
    end
  end
  if of.owner then
    found['f:owner ' .. of.owner] = of.id
  end
  return found
end

-- Have cleanup find it if it is completed and has no instance.
local function note_idle(of)
  if of.completed_at then
    write_lists()
    if call('EXISTS', P .. 'di:' .. of.life) == 0 then
      enlist('idle', of.completed_at .. of.id)
    end
  end
end

local function note_busy(of)
  if of.completed_at then
    delist('idle', of.completed_at .. of.id)
  end
end

-- Change fields of a definition, which may be known to have an instance.
local function change(of, values, has_some)
  local was = times_of(of)
  note_busy(of)
  alter(of, values)
  relist(was, times_of(of))
  if not has_some then
    note_idle(of)
  end
end

-- What its instances take with them of what it says now.
local function overlap_of(of, fired)
  if of.overlap == 'allow' or (fired and of.waits) then
    return nil
  end
  return of.overlap
end

local function slot_of(of, fired, backfilled, lock)
  lock = lock or of.lock
  if lock then
    return 'lock ' .. lock
  end
  local excludes
  if backfilled then
    excludes = backfilled ~= 'allow'
  else
    excludes = overlap_of(of, fired)
  end
  return excludes and of.id or nil
end
