-- The time by which claims are judged.
return now
