-- Instances: a hash for each, and the sorted sets of which its state calls for one.
local INSTANCE = {
  'id', 'of', 'fire_time', 'execute_at', 'due_at', 'attempt', 'runs', 'hangs',
  'claimed_by', 'expires_at', 'started_at', 'outcome', 'error', 'cancel_requested',
  'payload', 'key', 'backfilled', 'reopened_at', 'created_at', 'trace_context',
  'completed_at', 'ended_attempt', 'parked', 'worker', 'result', 'client', 'accepted_at', 'start_by',
  'progress', 'skipped_first', 'skipped_last', 'skipped_count', 'skipped_reason',
}
local FIELDS = { 'queue', 'priority', 'slot', 'overlap', 'behind', 'handed_on' }
for n = 2, #INSTANCE do
  FIELDS[#FIELDS + 1] = INSTANCE[n]
end
local NUMBERS = { attempt = true, runs = true, hangs = true, handed_on = true }
local rows, counted, served = {}, {}, {}

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
end

local function is_fired(row)
  return row.fire_time and not row.backfilled
end

-- Where it is found: its sorted set, as what, and what it is among the undecided.
local function place(row)
  local of = definition(row.of)
  if row.outcome then
    return 'e:' .. row.outcome, row.completed_at .. row.id
  end
  if of.paused then
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

-- Whether it has what is gone by: somebody may have broken it by hand.
local function is_whole(row)
  for name in pairs(NUMBERS) do
    if type(row[name]) ~= 'number' and (row[name] or name ~= 'handed_on') then
      return false
    end
  end
  return row.due_at and row.execute_at and row.queue and row.priority
    and (row.completed_at or not row.outcome)
    and (row.expires_at or not row.claimed_by or row.outcome)
    and (row.slot or not row.parked)
    and row.of and definition(row.of)
end

-- The row of an id, or false.
local function instance(id)
  local row = rows[id]
  if row == nil then
    local values = hash_of('i:' .. id)
    local old, read = {}, { id = id }
    for n = 1, #values, 2 do
      local name, value = values[n], values[n + 1]
      value = NUMBERS[name] and tonumber(value) or value
      old[name], read[name] = value, value
    end
    row = false
    -- Another one is left alone, as if it were not there.
    if is_whole(old) then
      row, read.old = read, old
      row.zkey, row.zmember, row.zturn = place(row)
    end
    rows[id] = row
  end
  return row
end

-- The rows of members.
local function instances_of(members)
  local found = {}
  for _, member in ipairs(members) do
    found[#found + 1] = instance(id_of(member)) or nil
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
local function leave_list(zkey, member)
  if zkey and sub(zkey, 1, 2) == 'w:' then
    call('ZREM', P .. zkey, member)
    touch(sub(zkey, 3))
  elseif zkey then
    delist(zkey, member)
  end
end

local function enter_list(zkey, member)
  if zkey and sub(zkey, 1, 2) == 'w:' then
    call('ZADD', P .. zkey, 0, member)
    touch(sub(zkey, 3))
  elseif zkey then
    enlist(zkey, member)
  end
end

local function move_to(row, zkey, zmember, zturn)
  local old = row.zkey
  if old ~= zkey or row.zmember ~= zmember then
    leave_list(old, row.zmember)
    enter_list(zkey, zmember)
    if zkey and not served[zkey] then
      served[zkey] = true
      local kind = sub(zkey, 1, 2)
      if kind == 'p:' or kind == 'l:' then
        call('SADD', P .. 'queues', row.queue)
      end
    end
  end
  if row.zturn ~= zturn then
    if row.zturn then
      call('ZREM', P .. 'undecided', row.zturn)
    end
    if zturn then
      call('ZADD', P .. 'undecided', 0, zturn)
    end
  end
  row.zkey, row.zmember, row.zturn = zkey, zmember, zturn
end

local function owner_of(row)
  if row.claimed_by and not row.outcome and row.handed_on ~= row.attempt then
    return row.claimed_by
  end
end

-- Where an open instance stands of its definition: what a trigger may wait for apart.
local function beside(row)
  return P .. (is_fired(row) and 'do:' or 'dh:') .. row.of
end

local function enter(old, row)
  local was, is = old and state_of(old), state_of(row)
  if was ~= is then
    if was then
      counted[was] = (counted[was] or 0) - 1
    end
    counted[is] = (counted[is] or 0) + 1
  end
  local class = row.outcome or 'open'
  local former = old and (old.outcome or 'open')
  if former ~= class then
    local member = row.execute_at .. row.id
    if former then
      delist('x:' .. former, member)
    end
    enlist('x:' .. class, member)
    if class == 'open' then
      call('SADD', beside(row), row.id)
    elseif former == 'open' then
      -- It may have left its fire time, or been backfilled since.
      if call('SREM', beside(old), row.id) == 0 then
        call('SREM', P .. 'do:' .. row.of, row.id)
        call('SREM', P .. 'dh:' .. row.of, row.id)
      end
    end
  end
  local node, before = owner_of(row), old and owner_of(old)
  if node ~= before then
    if before then
      delist('n:' .. before, row.id)
    end
    if node then
      enlist('n:' .. node, row.id)
    end
  end
end

-- Keep what has changed of a row, wherever it is to be found.
local function save(row)
  local old = row.old
  enter(old, row)
  move_to(row, place(row))
  old = old or {}
  local set, gone, key = {}, {}, P .. 'i:' .. row.id
  for _, name in ipairs(FIELDS) do
    local value = row[name]
    if old[name] ~= value then
      old[name] = value
      if value == nil then
        gone[#gone + 1] = name
      else
        set[#set + 1], set[#set + 2] = name, value
      end
    end
  end
  if #set > 0 then
    call('HSET', key, unpack(set))
  end
  if #gone > 0 then
    call('HDEL', key, unpack(gone))
  end
  row.old = old
end

-- Let it exclude what its definition says now.
local function follow(row)
  local of = definition(row.of)
  local fired = is_fired(row)
  row.slot = slot_of(of, fired, row.backfilled)
  if not row.backfilled then
    row.overlap = overlap_of(of, fired)
  elseif row.backfilled == 'allow' or row.backfilled == 'buffer_all' then
    row.overlap = nil
  else
    row.overlap = row.backfilled
  end
end
