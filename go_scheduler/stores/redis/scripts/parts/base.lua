-- What every script begins with. All keys have one prefix, and are in one hash slot.
-- Times are 18 digits, microseconds since the year 1: as text they compare as they are,
-- and no number loses a digit. What is not there is nil, and never an empty text.
local P, A = KEYS[1], cjson.decode(ARGV[1])
local call, sub, concat, floor = redis.call, string.sub, table.concat, math.floor
local NEVER = '999999999999999999'

local function time_of(seconds, micros)
  return string.format('%012d%06d', seconds, micros)
end

-- The time so many microseconds later.
local function reckoned(at, micros)
  local seconds = tonumber(sub(at, 1, 12)) + floor(micros / 1000000)
  local rest = tonumber(sub(at, 13)) + micros % 1000000
  if rest >= 1000000 then
    seconds, rest = seconds + 1, rest - 1000000
  end
  if seconds < 0 then
    return time_of(0, 0)
  end
  if seconds > 315537897599 then
    return '315537897599999999'
  end
  return time_of(seconds, rest)
end

local now = A.now
if not now then
  local seconds, micros = unpack(call('TIME'))
  -- From the year 1 to 1970.
  now = time_of(seconds + 62135596800, micros)
end

-- Many rows ask for the same, a lease from now.
local from_now = {}
local function plus(at, micros)
  if at ~= now then
    return reckoned(at, micros)
  end
  from_now[micros] = from_now[micros] or reckoned(at, micros)
  return from_now[micros]
end

local function later(one, other)
  return one > other and one or other
end

-- What strings have, many in one call; false: nothing, or no string is there.
local function texts_of(prefix, names)
  local found = {}
  for first = 1, #names, 1000 do
    local keys = {}
    for n = first, math.min(first + 999, #names) do
      keys[#keys + 1] = P .. prefix .. names[n]
    end
    for _, text in ipairs(call('MGET', unpack(keys))) do
      found[#found + 1] = text
    end
  end
  return found
end

-- The object of a JSON text, or nil: somebody may have written another one by hand.
local function object_of(text)
  local is_read, value = pcall(cjson.decode, text)
  return is_read and type(value) == 'table' and value or nil
end

-- Whether these of its fields are whole numbers that JSON keeps, and all others texts.
local function has_types(object, numbers)
  for name, value in pairs(object) do
    local kind = type(value)
    if kind ~= (numbers[name] and 'number' or 'string') then
      return false
    end
    if kind == 'number' and (value % 1 ~= 0 or value >= 1e14 or value <= -1e14) then
      return false
    end
  end
  return true
end

local function is_time(text)
  return #text == 18 and not string.find(text, '%D')
end

-- The texts of definitions and rows.
local encoded = {}
local function text_of(object)
  encoded[object] = encoded[object] or cjson.encode(object)
  return encoded[object]
end

-- What becomes of strings and sorted sets, until it is written: a command for many.
local texts, listed = {}, {}
local function keep_text(kind, name, text)
  texts[P .. kind .. name] = text
end

-- Forget keys, of strings or others.
local function drop(...)
  for _, key in ipairs({ ... }) do
    texts[P .. key] = false
  end
end

local function enlist(key, member, stays)
  listed[key] = listed[key] or {}
  listed[key][member] = stays ~= false
end

local function delist(key, member)
  enlist(key, member, false)
end

-- Have something stand in these sorted sets, and no more in those.
local NOWHERE = {}
local function relist(was, is)
  for key, member in pairs(was) do
    if is[key] ~= member then
      delist(key, member)
    end
  end
  for key, member in pairs(is) do
    if was[key] ~= member then
      enlist(key, member)
    end
  end
end

-- Write what becomes of sorted sets: what stands there from now on, or no more.
local function write_members(command, stays)
  for key, members in pairs(listed) do
    local values = {}
    for member, is in pairs(members) do
      if is == stays then
        values[#values + 1] = stays and '0' or nil
        values[#values + 1] = member
      end
    end
    for first = 1, #values, 1000 do
      call(command, P .. key, unpack(values, first, math.min(first + 999, #values)))
    end
    local kind = stays and values[1] and sub(key, 1, 2)
    if kind == 'l:' or kind == 'p:' then
      call('SADD', P .. 'queues', sub(key, kind == 'l:' and 3 or 5))
    end
  end
end

-- Slots whose holder or whose waiting rows have changed; whether there is a new row.
local touched, grows = {}, false
local function write_lists()
  -- A server whose memory is full refuses a script that begins by adding, and no other.
  if grows then
    write_members('ZADD', true)
  end
  write_members('ZREM', false)
  if not grows then
    write_members('ZADD', true)
  end
  for key in pairs(listed) do
    if sub(key, 1, 2) == 'w:' then
      touched[sub(key, 3)] = true
    end
  end
  for slot in pairs(touched) do
    if call('EXISTS', P .. 'w:' .. slot) == 0 then
      call('ZREM', P .. 'parked', slot)
    else
      call('ZADD', P .. 'parked', call('HEXISTS', P .. 'slots', slot), slot)
    end
  end
  listed, touched = {}, {}
end

local function write_texts()
  local set, gone = {}, {}
  for key, text in pairs(texts) do
    if text then
      set[#set + 1], set[#set + 2] = key, text
    else
      gone[#gone + 1] = key
    end
  end
  for first = 1, #gone, 1000 do
    call('UNLINK', unpack(gone, first, math.min(first + 999, #gone)))
  end
  for first = 1, #set, 2000 do
    call('MSET', unpack(set, first, math.min(first + 1999, #set)))
  end
end

-- The members of a sorted set up to a time, the earliest first.
local function up_to(key, at, limit)
  if limit <= 0 then
    return {}
  end
  return call('ZRANGEBYLEX', P .. key, '-', '[' .. at .. '~', 'LIMIT', 0, limit)
end

-- The first of several sorted lists together.
local function merged(lists, limit, is_before)
  if #lists == 1 then
    return lists[1]
  end
  local all = {}
  for _, each in ipairs(lists) do
    for _, member in ipairs(each) do
      all[#all + 1] = member
    end
  end
  table.sort(all, is_before)
  for n = #all, limit + 1, -1 do
    all[n] = nil
  end
  return all
end

-- What a member of a sorted set is of.
local function id_of(member)
  return sub(member, -32)
end

local function ids_in(members)
  local ids = {}
  for n, member in ipairs(members) do
    ids[n] = id_of(member)
  end
  return ids
end

-- The ids of what arguments are about, such as claims.
local function ids_of(arguments)
  local ids = {}
  for n, each in ipairs(arguments) do
    ids[n] = each.id
  end
  return ids
end

-- Tell nodes that wait of what is due soon, once in a few milliseconds.
local function hint(about, at)
  if A.soon and at and at <= plus(now, A.soon) then
    A.soon = nil
    if call('SET', P .. 'hinted ' .. about, 1, 'NX', 'PX', 5) then
      call('PUBLISH', P .. 'hints', about)
    end
  end
end
