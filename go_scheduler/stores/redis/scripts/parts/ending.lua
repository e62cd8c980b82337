-- How instances end, and definitions go on behind them.
local function go_on(row, next_fire_time)
  -- It is known of a row, so that most take no look at their definitions.
  local of = row.waits and definition(row.of)
  if not of then
    return
  end
  local stands = not of.next_fire_time and not of.completed_at
  if stands and of.waits and is_fired(row) and not of.gone then
    if next_fire_time then
      change(of, { next_fire_time = next_fire_time })
    else
      change(of, { completed_at = now })
    end
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
