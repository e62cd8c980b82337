-- with: definitions rows instances claiming
-- Hand due instances to one node, and to no other.
local found = {}

-- One that cannot be read would be the first of its list for ever, and is taken off it.
local function set_aside(member)
  for _, queue in ipairs(A.queues) do
    call('ZREM', P .. 'l:' .. queue, member)
    for _, priority in ipairs(A.priorities) do
      call('ZREM', P .. 'p:' .. priority .. ':' .. queue, member)
    end
  end
  call('SADD', P .. 'broken', id_of(member))
end

local function take(members)
  instances_of(members)
  for _, member in ipairs(members) do
    local row = instance(id_of(member))
    if row then
      found[#found + 1] = row
    else
      set_aside(member)
    end
  end
end

local function heads(prefix, at, room)
  local lists = {}
  for n, queue in ipairs(A.queues) do
    lists[n] = up_to(prefix .. queue, at, room)
  end
  return #lists > 0 and merged(lists, room) or {}
end

if A.lapsed then
  take(heads('l:', plus(now, -A.lapsed), A.limit))
end
local room, pending = A.limit - #found, {}
local until_then, lead = plus(now, A.ahead), plus(now, A.lead)
for _, priority in ipairs(A.priorities) do
  for _, member in ipairs(heads('p:' .. priority .. ':', until_then, room - #pending)) do
    pending[#pending + 1] = member
  end
end
table.sort(pending)
take(pending)
local silent = {}
for _, row in ipairs(found) do
  if row.started_at and step_of(row) > 0 then
    silent[#silent + 1] = {
      row.id, row.started_at, row.accepted_at or '', row.start_by or '', row.worker or '',
    }
  end
  claim(row)
  if row.due_at <= lead and not row.slot then
    start(row)
  end
  save(row)
end
return done({ views(found), silent })
