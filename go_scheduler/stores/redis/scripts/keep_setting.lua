-- Agree on a setting: the first to ask has set it.
call('HSETNX', P .. 'settings', A.name, A.value)
return call('HGET', P .. 'settings', A.name)
