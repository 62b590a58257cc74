-- Lets the dispatcher find the next rows of each project, so that a project with many rows doesn't delay the others.
create index outbox_by_project on outbox (project_id, next_try_at, id);
