-- with: definitions rows instances
-- How many instances of a definition have not ended, and have not begun, up to a bound.
local of = by_id(A.of)
return of and math.min(count_waiting(of), A.most) or 0
