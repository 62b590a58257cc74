-- A lease that was written off while its process was only cut off from here is not the one that the process makes when it is back: each has a
-- number of its own, and what was admitted or settled under the old one changes nothing of the new one (src/ceilings/lease.ts).
alter table limit_leases add column generation bigint not null default 0;
