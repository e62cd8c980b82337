-- How instances end, and definitions go on behind them.
local function go_on(row, next_fire_time)
  -- It is known of a row, so that most take no look at their definitions.
  local of = row.waits and definition(row.of)
  if not of or of.gone or not of.waits or not is_fired(row) then
    return
  end
  if not of.next_fire_time and not of.completed_at then
    local completed_at = not next_fire_time and now
    change(of, { next_fire_time = next_fire_time, completed_at = completed_at }, true)
  end
end

-- Cancel what has not ended; answer what it came to.
local function cancel(row, next_fire_time)
  if row.claimed_by and row.started_at then
    row.cancel_requested = '1'
    save(row)
    return 'requested'
  end
  finish(row, 'cancelled')
  go_on(row, next_fire_time)
  return 'cancelled'
end
