-- concurrently
-- Rollups without calls, which an erasure deletes in its transaction (count_changed_calls, migration 0033): without it, each read all rollups.
create index usage_rollups_empty_tasks on usage_rollups (project_id, name) where scope = 'task' and calls = 0;
