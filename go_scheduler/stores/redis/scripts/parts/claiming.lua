-- How instances are claimed and started.
local function claim(row)
  if row.started_at then
    keep_run(row, 'lost')
    row.started_at = nil
  end
  row.claimed_by = A.claimant.node
  forget_worker(row)
  row.attempt = row.attempt + 1
  row.expires_at = plus(later(row.due_at, now), A.claimant.lease)
end

local function start(row)
  local of, claimant = definition(row.of), A.claimant
  row.runs = row.runs + 1
  row.started_at = later(row.due_at, now)
  local own = overrides_of(row).expire_after
  local expire_after = own or tonumber(of.expire_after) or claimant.expire_after
  row.expires_at = plus(row.started_at, math.min(claimant.lease, expire_after))
end

-- Claim and start what has just been made.
local function start_made(made)
  for _, row in ipairs(made) do
    claim(row)
    start(row)
    save(row)
  end
end
