-- with: definitions rows instances changing
-- Delete what ended long ago, and what is remembered for long enough.
for node, contact in pairs((function()
  local read, contacts = call('HGETALL', P .. 'nodes'), {}
  for n = 1, #read, 2 do
    contacts[read[n]] = read[n + 1]
  end
  return contacts
end)()) do
  if sub(contact, 19, 36) < plus(now, -A.contacts) then
    call('HDEL', P .. 'nodes', node)
  end
end

local kept_since = plus(now, -A.stats)
for _, member in ipairs(up_to('s:60000000', kept_since, 1000)) do
  -- What began exactly so long ago is still kept.
  if sub(member, 1, 18) < kept_since then
    call('ZREM', P .. 's:60000000', member)
    call('HDEL', P .. 'v:60000000', member)
  end
end

local function delete_row(row)
  local of = definition(row.of)
  forget(row)
  if not of.gone then
    note_idle(of)
  elseif call('EXISTS', P .. 'di:' .. of.life) == 0 then
    forget_life(of)
  end
end

local left, deleted = A.limit, 0
local function delete_ended(outcomes, at)
  local lists = {}
  for n, outcome in ipairs(outcomes) do
    lists[n] = up_to('e:' .. outcome, at, left)
  end
  local members = merged(lists, left)
  instances_of(members)
  for _, member in ipairs(members) do
    local row = instance(id_of(member))
    if row then
      delete_row(row)
    else
      for _, outcome in ipairs(outcomes) do
        set_aside('e:' .. outcome, member)
      end
    end
    left, deleted = left - 1, deleted + 1
  end
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

local ended = plus(now, -A.ended)
delete_ended({ 'completed', 'cancelled', 'skipped' }, ended)
delete_ended({ 'failed' }, plus(now, -A.failed))
for _, member in ipairs(up_to('idle', ended, left)) do
  local of = by_id(id_of(member))
  if of then
    bury(of)
  else
    -- It would be the first of the list for ever.
    call('ZREM', P .. 'idle', member)
  end
  deleted = deleted + 1
end
for _, member in ipairs(up_to('tombstones', plus(now, -A.remembered), A.limit)) do
  forget_tombstone(id_of(member))
end
local surplus = call('ZCARD', P .. 'tombstones') - A.most
local forgotten = 0
if surplus > 0 then
  local last = math.min(surplus, A.limit) - 1
  for _, member in ipairs(call('ZRANGE', P .. 'tombstones', 0, last)) do
    forget_tombstone(id_of(member))
    forgotten = forgotten + 1
  end
end
return done({ deleted, forgotten })
