-- The run of the workflow idleConversations that reads the idle conversations of a project. There is one while active.
create table idle_timers (
  project_id uuid primary key references projects (id),
  run integer not null default 0,
  active boolean not null default false,
  -- When the run checks next. A run that is long overdue has ended without its code, and the next conversation starts another.
  due_at timestamptz not null default now()
);
-- Idle conversations are now found by project (migration 0050).
drop index conversations_unread;
