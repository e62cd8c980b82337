-- with: definitions
-- Definitions of these ids, what is remembered of them, and a set's last version.
local tombstones, names = {}, { 'trigger_kind', 'trigger_state', 'revision', 'completed_at' }
for _, id in ipairs(A.tombstones and A.ids or {}) do
  local read = call('HMGET', P .. 't:' .. id, unpack(names))
  if read[4] then
    tombstones[#tombstones + 1] = { id, unpack(read) }
  end
end
local declared = A.owner and call('HGET', P .. 'sets', A.owner) or false
return { now, definition_views(all_by_id(A.ids)), tombstones, declared }
