-- with: definitions rows instances
-- Instances by their ids, by the key of one, or as the holder of a slot.
local found = {}
if A.slot then
  found[1] = holder(A.slot) or nil
elseif A.key then
  local of = by_id(A.of)
  local id = of and call('HGET', P .. 'dk:' .. of.life, A.key)
  found[1] = id and instance(id) or nil
else
  found = instances_of(A.ids)
end
return views(found)
