-- with: definitions rows instances ending
-- Record what became of runs.

-- The row of a success that may count, though its claim has been lost.
local function unsuccessful(claim)
  local row = instance(claim.id)
  if row and claim.attempt >= 1 and claim.attempt <= row.attempt then
    return (not row.outcome or row.outcome == 'failed') and row
  end
end

-- Whether it stays when it has succeeded, though successes are deleted.
local function is_kept(row)
  local of = definition(row.of)
  local is_whole = of and not of.gone and not is_to_come(row)
  return row.attempt > 1 or row.error or row.key or row.slot or not is_whole
end

local function delete_success(row, each)
  forget(row)
  go_on(row, each.next_fire_time)
  note_idle(definition(row.of))
end

local function record_end(each)
  local row = current(each)
  if each.deletes and row and not is_kept(row) then
    delete_success(row, each)
    return true
  end
  if row and not each.started_at and row.started_at then
    row.runs = row.runs - 1
  end
  if not row and each.outcome == 'completed' then
    row = unsuccessful(each)
  end
  if not row then
    return false
  end
  if each.outcome == 'skipped' then
    row.skipped_reason = each.error
  else
    row.error = each.error or row.error
  end
  row.client = each.client or row.client
  if each.kept then
    row.started_at = each.started_at
    keep_run(row, each.kept, each.error)
  end
  if each.hung then
    row.hangs = row.hangs + 1
  elseif not each.outcome then
    row.hangs = 0
  end
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
  if not record_end(each) then
    lost[#lost + 1] = each.id
  end
end
return done(lost)
