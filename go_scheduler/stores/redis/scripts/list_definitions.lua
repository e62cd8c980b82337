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
    local number = 0
    for _, key in ipairs(choice) do
      number = number + call('ZCARD', P .. key)
    end
    if not least or number < least then
      best, least = choice, number
    end
  end
  local lists, seen = {}, {}
  for n, key in ipairs(best) do
    lists[n] = call('ZRANGEBYLEX', P .. key, from, '+', 'LIMIT', 0, A.limit)
  end
  for _, id in ipairs(merged(lists, A.limit * #lists)) do
    if not seen[id] and #page < A.limit then
      page[#page + 1], seen[id] = id, true
    end
  end
end
return { definition_views(all_by_id(ids_in(page))), #page, page[#page] or false }
