-- How definitions fire.

-- Make the instances of a firing, if its definition is as it was read; answer them.
local function fire(firing)
  local of = by_id(firing.id)
  if not of or of.paused or (of.waits and has_open_fired(of)) then
    return nil
  end
  if of.next_fire_time ~= firing.next_fire_time or of.revision ~= firing.revision then
    return nil
  end
  if firing.skipped then
    record(of, firing.skipped)
  end
  local made = {}
  for _, each in ipairs(firing.instances) do
    local fire_time, execute_at, id = unpack(each)
    if not fired_at(of, fire_time) and fire_time ~= of.fired_until then
      made[#made + 1] = new(id, of, execute_at, fire_time)
      add(made[#made])
    end
  end
  local completed_at = not firing.next and not of.waits and now or of.completed_at
  local values = { next_fire_time = firing.next or false, completed_at = completed_at }
  change(of, values, #made > 0)
  return made
end
