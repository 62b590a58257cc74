-- concurrently
-- The latest failed call of a key (src/usage/last-calls.ts).
create index calls_errors_by_key on calls (key_id, id desc) where outcome not in ('ok', 'client_left');
