-- What is kept of the runs of an instance.
return call('LRANGE', P .. 'r:' .. A.id, 0, -1)
