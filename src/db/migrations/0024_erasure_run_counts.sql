-- How many runs of a workflow an erasure found, written down before they are deleted: who goes on after a crash cannot count them any more.

alter table erasure_runs add column runs bigint not null default 0;
