-- with: definitions rows instances
-- Let claims hold longer; answer which are current, and whether they are to stop.
local function is_others(row, each)
  if each.step < 2 or not row.accepted_at then
    return false
  end
  return row.worker and each.worker and row.worker ~= each.worker
end

-- Only the first acceptance counts.
local function accepts_again(row, each)
  return each.step == 2 and step_of(row) == 2
end

-- A stage never goes back.
local function come_to(row, each)
  if each.step == 0 or each.step < step_of(row) then
    return false
  end
  if each.step == 3 then
    if row.started_at and step_of(row) < 3 then
      row.started_at = now
    end
    row.start_by = nil
  elseif not accepts_again(row, each) then
    row.start_by = plus(now, each.lease)
  end
  if each.step > 1 then
    row.accepted_at = row.accepted_at or now
  end
  return true
end

local answer = {}
fetch(ids_of(A.renewals))
for _, each in ipairs(A.renewals) do
  local row = current(each)
  if row and not is_others(row, each) then
    local accepted_before = accepts_again(row, each)
    local comes_on = come_to(row, each)
    if each.handed_on then
      row.handed_on = row.attempt
      if comes_on or each.step == 0 then
        row.worker = each.worker or row.worker
      end
    end
    row.progress = each.progress or row.progress
    local expires_at = plus(now, each.lease)
    if row.handed_on == row.attempt and not comes_on then
      expires_at = later(expires_at, row.expires_at)
    end
    if not accepted_before then
      row.expires_at = expires_at
    end
    save(row)
    answer[#answer + 1] = { row.id, row.cancel_requested or '' }
  end
end
return done(answer)
