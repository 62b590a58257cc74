-- A batch whose run an operator ended in Temporal is `stopped` until it is replayed. `run_id` is the Temporal run that closed the batch; a batch
-- activity of any other run finds a reset, and replays the batch.
alter table memory_batches drop constraint memory_batches_state_check;
alter table memory_batches add constraint memory_batches_state_check check (state in ('running', 'done', 'failed', 'stopped'));
alter table memory_batches add column run_id text;
-- A batch that is being given up during the upgrade may have an open run, which must not take itself for a reset.
update memory_batches set run_id = 'unknown' where state = 'failed' and finished_at < now() - interval '1 hour';

-- The run whose call to the memory model is under way. Another run, which replaced it, waits for the response instead of paying for a second one.
alter table memory_batch_groups add column calling_run text;
alter table memory_batch_groups add column calling_until timestamptz;
