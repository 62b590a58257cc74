-- Why attempts failed, with an excerpt of the vendor's message (src/pipeline/call/attempt-error.ts). Rows are deleted after a time. They are not
-- columns of `attempts`, because the triggers of that table note an hour as changed whenever a row is updated.
create table attempt_errors (
  call_id uuid not null,
  n integer not null,
  project_id uuid not null,
  reason text not null,
  type text,
  code text,
  message text,
  primary key (call_id, n)
);
create index attempt_errors_by_project on attempt_errors (project_id, call_id desc);

-- An erasure removes the subject from its calls. The messages go with it, whichever version of the server erases.
create function erase_attempt_errors() returns trigger language plpgsql as $$ begin
  update attempt_errors set message = null
    from changed join before using (id)
   where before.subject_sha256 is not null and changed.subject_sha256 is null
     and attempt_errors.call_id = changed.id and attempt_errors.message is not null;
  return null;
end $$;
create trigger erase_attempt_errors after update on calls referencing old table as before new table as changed
  for each statement execute function erase_attempt_errors();
