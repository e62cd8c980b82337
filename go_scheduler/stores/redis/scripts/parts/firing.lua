-- How definitions fire.

-- Make the instances of a firing, if its definition is as it was read; answer them.
local function fire(firing)
  local of = by_id(firing.id)
  if not of or of.paused then
    return nil
  end
  if of.next_fire_time ~= firing.read or of.revision ~= firing.revision then
    return nil
  end
  if of.waits and call('SCARD', P .. 'do:' .. of.life) > 0 then
    return nil
  end
  unlist(of)
  if firing.skipped then
    add_skipped(new(firing.skipped.id, of, firing.skipped.first), firing.skipped)
  end
  local made = {}
  for _, each in ipairs(firing.instances) do
    local fire_time, execute_at, id = each[1], each[2], each[3]
    if not fired_at(of, fire_time) and fire_time ~= of.fired_until then
      local row = new(id, of, execute_at, fire_time)
      add(row)
      made[#made + 1] = row
    end
  end
  local values = { next_fire_time = firing.next or false }
  if not firing.next and not of.waits then
    values.completed_at = now
  end
  alter(of, values)
  list(of, #made > 0)
  return made
end
