-- Record that a node has been in contact up to now.
call('HSET', P .. 'nodes', A.node, plus(now, -A.unbroken) .. now .. A.announced)
return 1
