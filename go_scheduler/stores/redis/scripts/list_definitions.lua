-- with: definitions
-- A page of definitions in the order of their ids, or of their next fire times.
local page = {}
local from = A.after and '(' .. A.after or '-'
if A.soonest then
  page = call('ZRANGEBYLEX', P .. 'soon', from, '+', 'LIMIT', 0, A.limit)
elseif A.prefix then
  local first, last = '[' .. A.prefix, '[' .. A.prefix .. '\255'
  local ids = ids_in(call('ZRANGEBYLEX', P .. 'names', first, last, 'LIMIT', 0, A.most))
  table.sort(ids)
  for _, id in ipairs(ids) do
    if #page < A.limit and (not A.after or id > A.after) then
      page[#page + 1] = id
    end
  end
else
  -- Of conditions that all have to be met the one is walked that fewest meet.
  local best, least = { 'all' }, nil
  for _, choice in ipairs(A.choices) do
    local number, keys = 0, {}
    for n, each in ipairs(choice) do
      keys[n] = 'f:' .. each
      number = number + call('ZCARD', P .. keys[n])
    end
    if not least or number < least then
      best, least = keys, number
    end
  end
  local lists = {}
  for n, key in ipairs(best) do
    lists[n] = call('ZRANGEBYLEX', P .. key, from, '+', 'LIMIT', 0, A.limit)
  end
  local last
  for _, id in ipairs(#lists > 0 and merged(lists, A.limit * #lists) or {}) do
    if id ~= last and #page < A.limit then
      page[#page + 1], last = id, id
    end
  end
end
return { views_of(page), #page, page[#page] or false }
