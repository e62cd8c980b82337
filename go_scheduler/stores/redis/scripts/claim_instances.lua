-- with: definitions rows instances claiming
-- Hand due instances to one node, and to no other.
local found, list_of, met = {}, {}, 0

local function take(members)
  met = met + #members
  instances_of(members)
  for _, member in ipairs(members) do
    local row = instance(id_of(member))
    if not row then
      set_aside(list_of[member], member)
    elseif stood[row].key == list_of[member] and stood[row].member == member then
      found[#found + 1] = row
    else
      -- Somebody has moved it by hand: it would be claimed here for ever.
      call('ZREM', P .. list_of[member], member)
      enter_list(stood[row].key, stood[row].member)
    end
  end
end

local function heads(prefix, at, room)
  local lists = {}
  for n, queue in ipairs(A.queues) do
    lists[n] = up_to(prefix .. queue, at, room)
    for _, member in ipairs(lists[n]) do
      list_of[member] = prefix .. queue
    end
  end
  return #lists > 0 and merged(lists, room) or {}
end

if A.lapsed and now <= A.deadline then
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
return done({ views(found), silent, met })
