-- How definitions are edited, paused, resumed and deleted.

-- Remove what is to come behind the last that stays; fire it anew.
local function take_back(of)
  local coming = call('ZRANGEBYLEX', P .. 'df:' .. of.life, '(' .. now .. '~', '+')
  local first
  for n = #coming, 1, -1 do
    local row = instance(id_of(coming[n]))
    if not row or not is_unused(row) then
      break
    end
    first = row.fire_time
    remove(row)
  end
  if first then
    local before = of.next_fire_time
    local next_fire_time = before and before < first and before or first
    change(of, { next_fire_time = next_fire_time, completed_at = false })
  end
end

-- Remove what is to come of another trigger; what has passed is skipped.
local function discard(of)
  for _, row in ipairs(open_fired(of)) do
    if is_unused(row) then
      if row.fire_time > now then
        remove(row)
      else
        call('ZREM', P .. 'df:' .. row.of, row.fire_time .. row.id)
        call('ZADD', P .. 'du:' .. row.of, 0, row.execute_at .. row.id)
        row.skipped_first, row.skipped_last = row.fire_time, row.fire_time
        row.skipped_count, row.skipped_reason = 1, A.edited
        row.claimed_by, row.fire_time = nil, nil
        forget_worker(row)
        finish(row, 'skipped')
      end
    end
  end
  -- What has begun ahead of its time may be gone when the other trigger fires.
  local begun = call(
    'ZREVRANGEBYLEX', P .. 'df:' .. of.life, '+', '(' .. now .. '~', 'LIMIT', 0, 1
  )
  return begun[1] and sub(begun[1], 1, 18)
end

local function move(row, of)
  if row.claimed_by and not row.started_at and row.queue ~= of.queue then
    row.queue, row.priority = of.queue, of.priority
    give_back(row, row.due_at)
  else
    row.queue, row.priority = of.queue, of.priority
    save(row)
  end
end

local function exclude_anew(row)
  if row.started_at and has_slot(row) then
    row.waits = is_fired(row) and definition(row.of).waits or nil
    save(row)
    return
  end
  free_slot(row)
  row.parked = nil
  follow(row)
  save(row)
end

-- Give a definition other values, and its instances what they have of it.
local function replace(of, values)
  local open = open_rows(of)
  local queue, priority = of.queue, of.priority
  local overlap, lock, waits = of.overlap, of.lock, of.waits
  leave_facets(of)
  change(of, values)
  enter_facets(of)
  if of.queue ~= queue or of.priority ~= priority then
    for _, row in ipairs(open) do
      move(row, of)
    end
  end
  if of.overlap ~= overlap or of.lock ~= lock or of.waits ~= waits then
    for _, row in ipairs(open) do
      exclude_anew(row)
    end
  end
end

local function pause(of, note)
  if of.paused then
    alter(of, { note = note or false })
    return
  end
  take_back(of)
  local open = open_rows(of)
  change(of, {
    paused = '1', note = note or false, paused_at = now, revision = (of.revision or 0) + 1,
  })
  for _, row in ipairs(open) do
    if is_unused(row) then
      free_slot(row)
    end
    if row.claimed_by and not row.started_at then
      give_back(row, row.due_at)
    else
      save(row)
    end
  end
end

local function resume(of)
  if not of.paused then
    return
  end
  local open = open_rows(of)
  change(of, {
    pause_since = of.paused_at or now, pause_until = now, pause_note = of.note or false,
    paused = false, note = false, paused_at = false, revision = (of.revision or 0) + 1,
  })
  for _, row in ipairs(open) do
    if row.started_at then
      row.expires_at = later(row.expires_at, now)
    end
    save(row)
  end
  hint('a', now)
end

local function forget_life(of)
  altered[of] = nil
  drop('d:' .. of.life, 'c:' .. of.life)
end

-- Take a definition away; what has ended of it stays, listed nowhere.
local function take_away(of)
  unlist(of)
  leave_facets(of)
  life_of[of.id] = false
  -- A server whose memory is full lets a script write that has begun by removing.
  call('HDEL', P .. 'ids', of.id)
  call('ZREM', P .. 'all', of.id)
  local first = tonumber(call('GET', P .. 'first') or 1)
  if (of.revision or 0) >= first then
    call('SET', P .. 'first', (of.revision or 0) + 1)
  end
  drop('df:' .. of.life, 'du:' .. of.life, 'dk:' .. of.life)
  if call('EXISTS', P .. 'di:' .. of.life) == 1 then
    alter(of, { gone = '1' })
  else
    forget_life(of)
  end
end

local function delete(of)
  local ran = {}
  for _, row in ipairs(open_rows(of)) do
    if row.started_at then
      finish(row, 'cancelled')
      ran[#ran + 1] = row.id
    else
      remove(row)
    end
  end
  take_away(of)
  return ran
end

local function forget_tombstone(id)
  local ended = call('HGET', P .. 't:' .. id, 'completed_at')
  if ended then
    call('ZREM', P .. 'tombstones', ended .. id)
    call('DEL', P .. 't:' .. id)
  end
end
