-- Instances: a text for each, and the sorted sets of which its state calls for one.
local NUMBERS = {
  attempt = true, runs = true, hangs = true, handed_on = true, ended_attempt = true,
  skipped_count = true,
}
-- By their ids the rows; of a row where it stands, whether it is to be written, and its
-- text.
local rows, stood, unsaved, encoded = {}, {}, {}, {}
local counted, served, payloads = {}, {}, {}

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

-- How far its run has come on a bus, as a number; 0: it is on none.
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

-- The node that has it in its hands.
local function owner_of(row)
  if row.claimed_by and not row.outcome and row.handed_on ~= row.attempt then
    return row.claimed_by
  end
end

-- In which sorted set it is found, as what, and what it is among the undecided.
local function place(row, briefly)
  if row.outcome then
    return 'e:' .. row.outcome, row.completed_at .. row.id
  end
  if not briefly and (definition(row.of) or row).paused then
    return nil
  end
  if row.claimed_by then
    return 'l:' .. row.queue, row.expires_at .. row.id
  end
  if row.parked then
    local turn = row.due_at .. row.execute_at .. row.id
    return 'w:' .. row.slot, row.priority .. turn, row.overlap and turn
  end
  return 'p:' .. row.priority .. ':' .. row.queue, row.due_at .. row.id
end

-- Where it stands.
local function standing(row, briefly)
  local key, member, turn = place(row, briefly)
  return {
    key = key, member = member, turn = turn, state = state_of(row),
    outcome = row.outcome, node = owner_of(row),
    -- What a trigger may wait for stands apart.
    beside = not row.outcome and (is_fired(row) and 'do:' or 'dh:') .. row.of,
  }
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
      rows[row.id], stood[row] = row, standing(row, briefly)
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

-- Whether a slot that nobody has is waited for is known without looking at all.
local function touch(slot)
  if call('EXISTS', P .. 'w:' .. slot) == 0 then
    call('SREM', P .. 'parked', slot)
    call('ZREM', P .. 'free', slot)
    return
  end
  call('SADD', P .. 'parked', slot)
  if call('HEXISTS', P .. 'slots', slot) == 1 then
    call('ZREM', P .. 'free', slot)
  else
    call('ZADD', P .. 'free', 0, slot)
  end
end

-- Of slots the lists are read again at once.
local function leave_list(key, member)
  if key and sub(key, 1, 2) == 'w:' then
    call('ZREM', P .. key, member)
    touch(sub(key, 3))
  elseif key then
    delist(key, member)
  end
end

local function enter_list(key, member)
  if key and sub(key, 1, 2) == 'w:' then
    call('ZADD', P .. key, 0, member)
    touch(sub(key, 3))
  elseif key then
    enlist(key, member)
  end
end

local function note_queue(row, key)
  if key and not served[key] then
    served[key] = true
    local kind = sub(key, 1, 2)
    if kind == 'p:' or kind == 'l:' then
      call('SADD', P .. 'queues', row.queue)
    end
  end
end

-- One that cannot be read would be the first of its list for ever, and is taken off it.
local function set_aside(key, member)
  leave_list(key, member)
  call('SADD', P .. 'broken', id_of(member))
end

-- List it where it is to be found, and no more where it was.
local function move_to(row, was, is)
  if was.key ~= is.key or was.member ~= is.member then
    leave_list(was.key, was.member)
    enter_list(is.key, is.member)
    note_queue(row, is.key)
  end
  if was.turn ~= is.turn then
    if was.turn then
      call('ZREM', P .. 'undecided', was.turn)
    end
    if is.turn then
      call('ZADD', P .. 'undecided', 0, is.turn)
    end
  end
  if was.node ~= is.node then
    if was.node then
      delist('n:' .. was.node, row.id)
    end
    if is.node then
      enlist('n:' .. is.node, row.id)
    end
  end
end

-- Count it in its state, and list it among those of its outcome, or those without one.
local function class_as(row, was, is)
  if was.state ~= is.state then
    if was.state then
      counted[was.state] = (counted[was.state] or 0) - 1
    end
    if is.state then
      counted[is.state] = (counted[is.state] or 0) + 1
    end
  end
  local former, class = was.state and (was.outcome or 'open'), is.state and (is.outcome or 'open')
  if former == class then
    return
  end
  local member = row.execute_at .. row.id
  if former then
    delist('x:' .. former, member)
  end
  if class then
    enlist('x:' .. class, member)
  end
  if was.beside and call('SREM', P .. was.beside, row.id) == 0 then
    -- It may have left its fire time, or been backfilled since.
    call('SREM', P .. 'do:' .. row.of, row.id)
    call('SREM', P .. 'dh:' .. row.of, row.id)
  end
  if is.beside then
    call('SADD', P .. is.beside, row.id)
  end
end

local NOWHERE = {}

-- Have a row stand where it is to be found now, or nowhere.
local function stand(row, is)
  local was = stood[row] or NOWHERE
  class_as(row, was, is)
  move_to(row, was, is)
  stood[row] = is
end

-- Keep what has changed of a row, wherever it is to be found.
local function save(row)
  stand(row, standing(row))
  unsaved[row], encoded[row] = true, nil
end

local function text_of(row)
  local text = encoded[row] or cjson.encode(row)
  encoded[row] = text
  return text
end

local function write_rows()
  for row in pairs(unsaved) do
    keep_text('i:', row.id, text_of(row))
  end
end

-- Let it exclude what its definition says now.
local function follow(row)
  local of = definition(row.of)
  local fired = is_fired(row)
  row.slot = slot_of(of, fired, row.backfilled)
  row.waits = fired and of.waits or nil
  if not row.backfilled then
    row.overlap = overlap_of(of, fired)
  elseif row.backfilled == 'allow' or row.backfilled == 'buffer_all' then
    row.overlap = nil
  else
    row.overlap = row.backfilled
  end
end
