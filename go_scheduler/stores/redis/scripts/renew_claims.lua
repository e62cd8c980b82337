-- with: definitions rows instances
-- Let claims hold longer; answer which are current, and whether they are to stop.
local answer = {}
for _, each in ipairs(A.renewals) do
  local row = current(each)
  if row then
    if each.handed_on then
      row.handed_on = row.attempt
      row.worker = each.worker or row.worker
    end
    local expires_at = plus(now, each.lease)
    if row.handed_on == row.attempt then
      expires_at = later(expires_at, row.expires_at)
    end
    row.expires_at = expires_at
    save(row)
    answer[#answer + 1] = { row.id, row.cancel_requested or '' }
  end
end
return done(answer)
