-- with: definitions rows instances
-- Let claims hold longer; answer which are current, and whether they are to stop.
local function renew(row, each)
  local step, was = each.step, step_of(row)
  local expires_at = plus(now, each.lease)
  -- A stage never goes back, and only the first acceptance counts.
  local comes_on = step > 0 and step >= was
  local accepted_before = step == 2 and was == 2
  if comes_on and step == 3 then
    if row.started_at and was < 3 then
      row.started_at = now
    end
    row.start_by = nil
  elseif comes_on and not accepted_before then
    row.start_by = expires_at
  end
  if comes_on and step > 1 then
    row.accepted_at = row.accepted_at or now
  end
  if each.handed_on then
    row.handed_on = row.attempt
    if comes_on or step == 0 then
      row.worker = each.worker or row.worker
    end
  end
  row.progress = each.progress or row.progress
  if row.handed_on == row.attempt and not comes_on then
    expires_at = later(expires_at, row.expires_at)
  end
  if not accepted_before then
    row.expires_at = expires_at
  end
  save(row)
end

-- Whether a worker claims what another one has accepted.
local function is_others(row, each)
  return each.step > 1 and row.accepted_at
    and row.worker and each.worker and row.worker ~= each.worker
end

local answer = {}
fetch(ids_of(A.renewals))
for _, each in ipairs(A.renewals) do
  local row = current(each)
  if row and not is_others(row, each) then
    renew(row, each)
    answer[#answer + 1] = { row.id, row.cancel_requested or '' }
  end
end
return done(answer)
