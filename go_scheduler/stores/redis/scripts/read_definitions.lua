-- with: definitions
-- Definitions of these ids, what is remembered of them, and a set's last version.
local found, tombstones = {}, {}
fetch_ids(A.ids)
for _, id in ipairs(A.ids) do
  local of = by_id(id)
  if of then
    found[#found + 1] = of
  end
  if A.tombstones then
    local read = call(
      'HMGET', P .. 't:' .. id, 'trigger_kind', 'trigger_state', 'revision',
      'completed_at'
    )
    if read[4] then
      tombstones[#tombstones + 1] = { id, unpack(read) }
    end
  end
end
local declared = A.owner and call('HGET', P .. 'sets', A.owner) or false
return { now, definition_views(found), tombstones, declared }
