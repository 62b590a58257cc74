-- concurrently
-- Calls of a task and of an application (src/usage/call-rows.ts), and the latest conversations of a subject (src/memory/recall/wake-up.ts).
create index calls_by_task on calls (project_id, task_id, id desc) where task_id is not null;
create index calls_by_source on calls (project_id, source, id desc);
create index conversations_by_subject_turn on conversations (project_id, subject, last_turn_at desc, id desc);
