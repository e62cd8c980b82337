-- with: definitions rows instances changing
-- Delete what ended long ago, and what is remembered for long enough.
local contacts = call('HGETALL', P .. 'nodes')
for n = 1, #contacts, 2 do
  if sub(contacts[n + 1], 19, 36) < plus(now, -A.contacts) then
    call('HDEL', P .. 'nodes', contacts[n])
  end
end

-- What began exactly so long ago is still kept.
local before = '(' .. plus(now, -A.stats)
for _, member in ipairs(call('ZRANGEBYLEX', P .. 'stats', '-', before, 'LIMIT', 0, 1000)) do
  call('ZREM', P .. 'stats', member)
  call('HDEL', P .. 'counted', member)
end

local left, emptied = A.limit, {}
local function delete_ended(outcomes, at)
  local lists, list_of = {}, {}
  for n, outcome in ipairs(outcomes) do
    lists[n] = up_to('e:' .. outcome, at, left)
    for _, member in ipairs(lists[n]) do
      list_of[member] = 'e:' .. outcome
    end
  end
  local members = merged(lists, left)
  instances_of(members)
  for _, member in ipairs(members) do
    local row = instance(id_of(member))
    if row and is_to_come(row) then
      left = left + 1
    elseif row then
      emptied[row.of] = true
      forget(row)
    else
      set_aside(list_of[member], member)
    end
  end
  left = left - #members
end

local function bury(of)
  take_away(of)
  if of.named then
    call(
      'HSET', P .. 't:' .. of.id, 'trigger_kind', of.trigger_kind or '', 'trigger_state',
      contents_of(of)[1] or '', 'revision', of.revision or 0, 'completed_at', of.completed_at
    )
    call('ZADD', P .. 'tombstones', 0, of.completed_at .. of.id)
  end
end

local function forget_tombstones(members)
  for _, member in ipairs(members) do
    forget_tombstone(id_of(member))
  end
  return #members
end

local ended = plus(now, -A.retention.ended)
delete_ended({ 'completed', 'cancelled', 'skipped' }, ended)
delete_ended({ 'failed' }, plus(now, -A.retention.failed))
write_lists()
for life in pairs(emptied) do
  local of = definition(life)
  if of.gone then
    forget_life(of)
  else
    note_idle(of)
  end
end
write_lists()
for _, member in ipairs(up_to('idle', ended, left)) do
  local of = by_id(id_of(member))
  if of then
    bury(of)
  else
    -- It would be the first of the list for ever.
    delist('idle', member)
  end
  left = left - 1
end
forget_tombstones(up_to('tombstones', plus(now, -A.retention.remembered), A.limit))
local surplus = math.min(call('ZCARD', P .. 'tombstones') - A.most, A.limit)
local oldest = surplus > 0 and call('ZRANGE', P .. 'tombstones', 0, surplus - 1) or {}
return done({ A.limit - left, forget_tombstones(oldest) })
