-- with: definitions rows instances claiming
-- Hand due instances to one node, and to no other.
local found, list_of, met = {}, {}, 0

local function take(members)
  met = met + #members
  instances_of(members)
  for _, member in ipairs(members) do
    local row, list = instance(id_of(member)), list_of[member]
    if not row then
      set_aside(list, member)
    elseif stood[row][list] == member then
      found[#found + 1] = row
    else
      -- Somebody has moved it by hand: it would be claimed here for ever.
      relist({ [list] = member }, stood[row])
    end
  end
end

local function heads(prefix, at, room)
  local lists = {}
  for n, queue in ipairs(A.claimant.queues) do
    lists[n] = up_to(prefix .. queue, at, room)
    for _, member in ipairs(lists[n]) do
      list_of[member] = prefix .. queue
    end
  end
  return merged(lists, room)
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
    silent[#silent + 1] = cjson.encode(row)
  end
  claim(row)
  if row.due_at <= lead and not row.slot then
    start(row)
  end
  save(row)
end
return done({ views(found), silent, met })
