-- with: definitions rows instances
-- A page of instances, of some sorted sets together, between two places; of these the
-- ones that are looked for.
local MOST_HELD = 1000
local of = A.of and by_id(A.of)
local from, to = A.from, A.to

local function set_of(names)
  local found = {}
  for _, name in ipairs(names or {}) do
    found[name] = true
  end
  return names and found
end

local queues, owners = set_of(A.queues), set_of(A.owners)

local function is_wanted(row)
  local its = definition(row.of)
  return (not of or row.of == of.life)
    and (not A.state or state_of(row) == A.state)
    and (not A.name or its.name == A.name)
    and (not queues or queues[its.queue])
    and (not owners or owners[its.owner or false])
end

local function is_within(member)
  local is_after = sub(from, 1, 1) == '(' and member <= sub(from, 2)
  local is_behind = sub(to, 1, 1) == '(' and member >= sub(to, 2)
  return not (is_after or is_behind or member < sub(from, 2))
end

local function sorted(members)
  table.sort(members, function(one, other)
    if A.newest then
      return one > other
    end
    return one < other
  end)
  return members
end

-- The members that are claimed, if few are and no other one is in the state looked for:
-- what is claimed of a paused definition stands in no list of claims.
local function held()
  local number = tonumber(call('HGET', P .. 'counts', A.state)) or 0
  local claimed, size, found = {}, 0, {}
  if number == 0 then
    return found
  end
  for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
    size = size + call('ZCARD', P .. 'l:' .. queue)
    if size > MOST_HELD then
      return nil
    end
    for _, member in ipairs(call('ZRANGE', P .. 'l:' .. queue, 0, -1)) do
      claimed[#claimed + 1] = member
    end
  end
  for _, row in ipairs(instances_of(claimed)) do
    if state_of(row) == A.state then
      number = number - 1
      local member = row.execute_at .. row.id
      if is_wanted(row) and is_within(member) then
        found[#found + 1] = member
      end
    end
  end
  return number == 0 and sorted(found) or nil
end

-- The members of the sorted sets, of each so many as a page has.
local function listed_in(sets)
  local all = {}
  for _, key in ipairs(sets) do
    local found
    if A.newest then
      found = call('ZREVRANGEBYLEX', P .. key, to, from, 'LIMIT', 0, A.limit)
    else
      found = call('ZRANGEBYLEX', P .. key, from, to, 'LIMIT', 0, A.limit)
    end
    for _, member in ipairs(found) do
      all[#all + 1] = member
    end
  end
  return #sets > 1 and sorted(all) or all
end

local function of_definition()
  if not of then
    return {}
  end
  if A.key then
    -- Of all its instances at most one has it.
    local known = call('HGET', P .. 'dk:' .. of.life, A.key)
    local row = known and instance(known)
    local member = row and row.execute_at .. known
    return member and is_within(member) and { member } or {}
  end
  local own, beside = A.set .. of.life, A.among
  if beside and call('ZCARD', P .. beside) < call('ZCARD', P .. own) then
    own = beside
  end
  return listed_in({ own })
end

local all = A.held and held()
if not all then
  all = A.of and of_definition() or listed_in(A.sets)
end
local page, found = {}, {}
for n = 1, math.min(#all, A.limit) do
  page[n] = all[n]
end
for _, row in ipairs(instances_of(page)) do
  found[#found + 1] = is_wanted(row) and row or nil
end
return { views(found), #page, page[#page] or false }
