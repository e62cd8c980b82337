-- with: definitions rows instances ending
-- Record what became of runs.
local function unsuccessful(claim)
  local row = instance(claim.id)
  if not row or claim.attempt < 1 or claim.attempt > row.attempt then
    return nil
  end
  if not row.outcome or row.outcome == 'failed' then
    return row
  end
end

local function note_error(row, each)
  if not each.error then
    return
  end
  if each.outcome == 'skipped' then
    local at = row.fire_time or row.execute_at
    row.skipped_first, row.skipped_last, row.skipped_count = at, at, 1
    row.skipped_reason = each.error
  else
    row.error = each.error
  end
end

local function end_run(row, each, is_current)
  if is_current and not each.started_at and row.started_at then
    row.runs = row.runs - 1
  end
  if each.kept then
    row.started_at = each.started_at
    keep_run(row, each.kept, each.error)
  end
  if each.hung then
    row.hangs = row.hangs + 1
  elseif not each.outcome then
    row.hangs = 0
  end
end

-- Whether it stays when it has succeeded, though successes are deleted.
local function is_kept(row)
  return row.attempt > 1 or row.error or row.key or row.slot
end

local function delete_success(row, each)
  local of = definition(row.of)
  forget(row)
  go_on(row, each.next_fire_time)
  note_idle(of)
end

local function record(each)
  local row = current(each)
  local is_current = row ~= nil
  if not row and each.outcome == 'completed' then
    row = unsuccessful(each)
  end
  if not row then
    return false
  end
  if each.deletes and is_current and not is_kept(row) then
    delete_success(row, each)
    return true
  end
  note_error(row, each)
  row.client = each.client or row.client
  end_run(row, each, is_current)
  if not each.outcome then
    give_back(row, plus(now, each.retry_in))
    return true
  end
  row.started_at, row.ended_attempt = each.started_at, each.attempt
  row.result = each.result or row.result
  local had_ended = row.outcome
  finish(row, each.outcome)
  if not had_ended then
    go_on(row, each.next_fire_time)
  end
  return true
end

local lost = {}
fetch(ids_of(A.outcomes), true)
for _, each in ipairs(A.outcomes) do
  if not record(each) then
    lost[#lost + 1] = each.id
  end
end
return done(lost)
