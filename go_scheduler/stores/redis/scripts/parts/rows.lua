-- Instances: a text for each, and the sorted sets that find them.
local NUMBERS = {
  attempt = true, runs = true, hangs = true, handed_on = true, ended_attempt = true,
  skipped_count = true,
}
-- The stages of a run on a bus, in their order.
local STAGES = { 'published', 'accepted', 'started' }
-- By their ids the rows and their payloads; of a row where it stands, and whether it is
-- to be written.
local rows, payloads, stood, unsaved = {}, {}, {}, {}

local function state_of(row)
  if row.outcome then
    return row.outcome
  end
  if not row.claimed_by then
    return 'pending'
  end
  if not row.started_at then
    return 'claimed'
  end
  return row.cancel_requested and 'cancelling' or 'running'
end

-- How far its run has come on a bus, as the number of a stage; 0: it is on none.
local function step_of(row)
  if row.start_by then
    return row.accepted_at and 2 or 1
  end
  return row.accepted_at and 3 or 0
end

local function forget_worker(row)
  row.worker, row.accepted_at, row.start_by, row.progress = nil, nil, nil, nil
  row.given_back = nil
end

local function is_fired(row)
  return row.fire_time and not row.backfilled
end

-- Whether its fire time is to come: a pause or an edit has to know of it.
local function is_to_come(row)
  return row.fire_time and row.fire_time > now
end

-- The sorted sets in which it stands as long as it is kept, and as what.
local function lasting_places(row)
  local at = row.execute_at .. row.id
  return {
    ['di:' .. row.of] = at,
    [(row.fire_time and 'df:' or 'du:') .. row.of] = (row.fire_time or row.execute_at) .. row.id,
    keys = row.key and row.key .. '\0' .. at,
  }
end

-- Those in which it stands by its state. Briefly: as if no definition were paused.
local function places(row, briefly)
  local found = { ['x:' .. state_of(row)] = row.execute_at .. row.id }
  if row.outcome then
    found['e:' .. row.outcome] = row.completed_at .. row.id
    return found
  end
  -- What a trigger may wait for stands apart.
  found['do:' .. row.of] = (is_fired(row) and 'f' or 'h') .. row.id
  if not briefly and (definition(row.of) or row).paused then
    return found
  end
  if row.claimed_by then
    found['l:' .. row.queue] = row.expires_at .. row.id
  elseif row.parked then
    local turn = row.due_at .. row.execute_at .. row.id
    found['w:' .. row.slot] = row.priority .. turn
    found.undecided = row.overlap and turn
  else
    found['p:' .. row.priority .. ':' .. row.queue] = row.due_at .. row.id
  end
  return found
end

-- Whether it has what is gone by: somebody may have broken it by hand.
local function is_whole(row)
  return has_types(row, NUMBERS)
    and row.attempt and row.runs and row.hangs and row.due_at and row.execute_at
    and row.queue and row.priority
    and (row.completed_at or not row.outcome)
    and (row.expires_at or not row.claimed_by or row.outcome)
    and (row.slot or not row.parked)
    and row.of and is_time(row.due_at)
end

-- Read rows that have not been read, and their definitions, all at once.
-- To end them briefly takes no definition: as if none were paused, they leave all lists.
local function fetch(ids, briefly)
  local unread, found, wanted = {}, {}, {}
  for _, id in ipairs(ids) do
    if rows[id] == nil then
      -- Another one is left alone, as if it were not there.
      rows[id], unread[#unread + 1] = false, id
    end
  end
  for n, text in ipairs(texts_of('i:', unread)) do
    local row = object_of(text) or {}
    row.id = unread[n]
    found[n], wanted[#wanted + 1] = row, type(row.of) == 'string' and row.of or nil
  end
  if not briefly then
    fetch_lives(wanted)
  end
  for _, row in ipairs(found) do
    if is_whole(row) and (briefly or definition(row.of)) then
      rows[row.id], stood[row] = row, places(row, briefly)
    end
  end
end

-- The row of an id, or false.
local function instance(id)
  if rows[id] == nil then
    fetch({ id })
  end
  return rows[id]
end

-- The rows of members.
local function instances_of(members)
  local ids, found = ids_in(members), {}
  fetch(ids)
  for _, id in ipairs(ids) do
    found[#found + 1] = instance(id) or nil
  end
  return found
end

-- One that cannot be read would be the first of its list for ever, and is taken off it.
local function set_aside(key, member)
  delist(key, member)
  call('SADD', P .. 'broken', id_of(member))
end

-- Keep what has changed of a row, wherever it is to be found.
local function save(row)
  local is = places(row)
  relist(stood[row] or NOWHERE, is)
  stood[row], unsaved[row], encoded[row] = is, true, nil
end

-- What it has of its own instead of its definition's; nothing, if it cannot be read.
local OWN = { queue = 'string', priority = 'number', expire_after = 'number', lock = 'string' }
local function overrides_of(row)
  local own = row.overrides and object_of(row.overrides) or NOWHERE
  for name, kind in pairs(OWN) do
    if own[name] ~= nil and type(own[name]) ~= kind then
      return NOWHERE
    end
  end
  return own
end

-- Let it be in the queue and the class that are its definition's now, or its own.
local function move(row)
  local of, own = definition(row.of), overrides_of(row)
  row.queue, row.priority = own.queue or of.queue, tostring(own.priority or of.priority)
end

-- Let it be where its definition says now, and exclude what that says.
local function follow(row)
  move(row)
  local of = definition(row.of)
  local fired = is_fired(row)
  row.slot = slot_of(of, fired, row.backfilled, overrides_of(row).lock)
  row.waits = fired and of.waits or nil
  if not row.backfilled then
    row.overlap = overlap_of(of, fired)
  elseif row.backfilled == 'allow' or row.backfilled == 'buffer_all' then
    row.overlap = nil
  else
    row.overlap = row.backfilled
  end
end
