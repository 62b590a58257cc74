-- What stored calls have used of a lease of this generation: its process learns of each debit only later.
alter table limit_leases add column debited bigint not null default 0;

-- The latest request for unused quota of the counter, for processes that no notification reaches.
alter table limit_counters add column return_requested_at timestamptz, add column return_requested_by uuid;
