-- with: definitions rows instances
-- One instance, by its id or as the holder of a slot.
local row
if A.slot then
  row = holder(A.slot)
else
  row = instance(A.id)
end
return views(row and { row } or {})
