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
  for _, row in ipairs(open_rows(of, true)) do
    if is_unused(row) and row.fire_time > now then
      remove(row)
    elseif is_unused(row) then
      local was = lasting_places(row)
      row.skipped_first, row.skipped_last = row.fire_time, row.fire_time
      row.skipped_count, row.skipped_reason = 1, A.edited
      row.claimed_by, row.fire_time = nil, nil
      relist(was, lasting_places(row))
      forget_worker(row)
      finish(row, 'skipped')
    end
  end
  write_lists()
  -- What has begun ahead of its time may be gone when the other trigger fires.
  local begun = call(
    'ZREVRANGEBYLEX', P .. 'df:' .. of.life, '+', '(' .. now .. '~', 'LIMIT', 0, 1
  )
  return begun[1] and sub(begun[1], 1, 18)
end

-- Have the open rows of a definition say and exclude what it says now.
local function follow_edited(of, open, excludes_the_same)
  for _, row in ipairs(open) do
    local queue = row.queue
    move(row)
    if not excludes_the_same and row.started_at and has_slot(row) then
      -- What runs in a slot keeps it until it has ended.
      row.waits = is_fired(row) and of.waits or nil
    elseif not excludes_the_same then
      free_slot(row)
      row.parked = nil
      follow(row)
    end
    if row.queue ~= queue and row.claimed_by and not row.started_at then
      give_back(row, row.due_at)
    else
      save(row)
    end
  end
end

-- Give a definition other values, and its instances what they have of it.
local function replace(of, values)
  local queue, priority = of.queue, of.priority
  local overlap, lock, waits = of.overlap, of.lock, of.waits
  local facets, open = facets_of(of), open_rows(of)
  change(of, values)
  relist(facets, facets_of(of))
  local excludes_the_same = of.overlap == overlap and of.lock == lock and of.waits == waits
  if not excludes_the_same or of.queue ~= queue or of.priority ~= priority then
    follow_edited(of, open, excludes_the_same)
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

-- Forget a deleted definition, once what has ended of it is gone.
local function forget_life(of)
  if call('EXISTS', P .. 'di:' .. of.life) == 1 then
    alter(of, { gone = '1' })
  else
    altered[of] = nil
    drop('d:' .. of.life, 'c:' .. of.life)
  end
end

-- Take a definition away.
local function take_away(of)
  life_of[of.id] = false
  -- A server whose memory is full lets a script write that has begun by removing.
  call('HDEL', P .. 'ids', of.id)
  note_busy(of)
  relist(times_of(of), NOWHERE)
  relist(facets_of(of), NOWHERE)
  write_lists()
  local revision = of.revision or 0
  if revision >= tonumber(call('GET', P .. 'first') or 1) then
    call('SET', P .. 'first', revision + 1)
  end
  drop('df:' .. of.life, 'du:' .. of.life, 'dk:' .. of.life)
  forget_life(of)
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
