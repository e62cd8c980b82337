-- What is done with instances, whatever their state.

-- A new row, which nobody finds yet.
local function new(id, of, execute_at, fire_time, backfilled, overrides)
  local row = {
    id = id, of = of.life, execute_at = execute_at, due_at = execute_at,
    fire_time = fire_time, backfilled = backfilled, overrides = overrides,
    created_at = now, attempt = 0, runs = 0, hangs = 0,
  }
  follow(row)
  return row
end

-- Let a new row be found.
local function add(row, payload)
  if payload then
    row.body, payloads[row.id] = '1', payload
    keep_text('b:', row.id, payload)
  end
  rows[row.id], grows = row, true
  note_busy(definition(row.of))
  relist(NOWHERE, lasting_places(row))
  if row.key then
    call('HSET', P .. 'dk:' .. row.of, row.key, row.id)
  end
  save(row)
end

-- Make the record of fire times that were skipped.
local function record(of, skipped)
  local row = new(skipped.id, of, skipped.first)
  row.skipped_first, row.skipped_last = skipped.first, skipped.last
  row.skipped_count, row.skipped_reason = skipped.count, skipped.reason
  row.outcome, row.completed_at = 'skipped', now
  add(row)
end

-- The id of the instance of a fire time, or nil.
local function fired_at(of, fire_time)
  local first, last = '[' .. fire_time, '[' .. fire_time .. '~'
  local found = call('ZRANGEBYLEX', P .. 'df:' .. of.life, first, last, 'LIMIT', 0, 1)
  return found[1] and id_of(found[1])
end

local function holder(slot)
  local id = slot and call('HGET', P .. 'slots', slot)
  return id and instance(id)
end

local function has_slot(row)
  return row.slot and call('HGET', P .. 'slots', row.slot) == row.id
end

local function free_slot(row)
  if has_slot(row) then
    call('HDEL', P .. 'slots', row.slot)
    touched[row.slot] = true
  end
end

-- Forget a row, whatever its state.
local function forget(row)
  relist(stood[row], NOWHERE)
  relist(lasting_places(row), NOWHERE)
  if row.key then
    call('HDEL', P .. 'dk:' .. row.of, row.key)
  end
  drop('i:' .. row.id, 'r:' .. row.id, row.body and 'b:' .. row.id)
  rows[row.id], unsaved[row] = false, nil
end

-- Forget a row that has not ended.
local function remove(row)
  free_slot(row)
  forget(row)
end

-- End a row for good.
local function finish(row, outcome)
  free_slot(row)
  row.parked, row.outcome, row.completed_at = nil, outcome, now
  save(row)
end

-- Make a claimed row pending again.
local function give_back(row, due_at, reason)
  row.claimed_by, row.expires_at, row.started_at = nil, nil, nil
  forget_worker(row)
  row.given_back = reason
  row.due_at = due_at
  save(row)
end

-- Make a row that has ended pending again and due then, as if it were new.
local function reopen(row, due_at)
  row.outcome, row.completed_at, row.ended_attempt = nil, nil, nil
  row.cancel_requested = nil
  row.runs, row.hangs = 0, 0
  follow(row)
  -- Somebody wants it to run: it waits for its turn, whatever runs.
  row.overlap = nil
  give_back(row, due_at)
end

-- The row that a claim owns, unless it has been lost.
local function current(claim)
  local row = instance(claim.id)
  if row and row.attempt == claim.attempt and row.claimed_by and not row.outcome then
    return row
  end
end

-- Keep how its present run ended.
local function keep_run(row, outcome, message)
  local key = P .. 'r:' .. row.id
  call('RPUSH', key, cjson.encode({
    attempt = row.attempt, node = row.claimed_by, started_at = row.started_at,
    ended_at = now, outcome = outcome, worker = row.worker, error = message,
    lost_in = outcome == 'lost' and STAGES[step_of(row)] or nil,
  }))
  call('LTRIM', key, -A.runs_kept, -1)
end

-- The instances of a definition that are open: all, or those that its schedule made.
local function open_rows(of, fired)
  local last, found = fired and '(g' or '+', {}
  local members = call('ZRANGEBYLEX', P .. 'do:' .. of.life, '-', last)
  for _, row in ipairs(instances_of(members)) do
    found[#found + 1] = not row.outcome and row or nil
  end
  return found
end

local function has_open_fired(of)
  return call('ZLEXCOUNT', P .. 'do:' .. of.life, '-', '(g') > 0
end

-- How many of its instances have not ended, and have not begun, by state and in all; on
-- a bus that is told.
local function count_unstarted(of)
  local found, number = {}, 0
  for _, row in ipairs(open_rows(of)) do
    if not row.claimed_by or not row.started_at or row.start_by then
      local state = state_of(row)
      found[state], number = (found[state] or 0) + 1, number + 1
    end
  end
  return found, number
end

local function is_unused(row)
  local is_waiting = not row.outcome and not row.started_at
  return is_waiting and row.runs == 0 and not row.reopened_at and is_fired(row)
end

-- What is taken with them to their handlers, in their order.
local function payloads_of(found)
  local unread, answer = {}, {}
  for _, row in ipairs(found) do
    if row.body and payloads[row.id] == nil then
      unread[#unread + 1] = row.id
    end
  end
  for n, text in ipairs(texts_of('b:', unread)) do
    payloads[unread[n]] = text
  end
  for _, row in ipairs(found) do
    answer[#answer + 1] = row.body and payloads[row.id]
  end
  return answer
end

-- What is answered of instances: they, and their definitions, each once.
local function views(found)
  local answer, of, seen = {}, {}, {}
  for n, row in ipairs(found) do
    answer[n] = text_of(row)
    if not seen[row.of] then
      seen[row.of], of[#of + 1] = true, definition(row.of)
    end
  end
  return { answer, payloads_of(found), definition_views(of) }
end

-- What a script that may have changed something ends with.
local function done(answer)
  write_lists()
  for row in pairs(unsaved) do
    keep_text('i:', row.id, text_of(row))
  end
  for of in pairs(altered) do
    keep_text('d:', of.life, text_of(of))
  end
  write_texts()
  return answer
end
