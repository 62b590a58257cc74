-- Each text of a prompt besides its messages, once per project: system prompts, tool definitions, tool results. What refers to it are rows
-- of `parts`, by `text_hash`. The hash is the SHA-256 of the text.
create table prompt_texts (
  project_id uuid not null,
  hash bytea not null,
  -- In UTF-8, compressed with zstd where that makes it shorter. PostgreSQL compresses only rows of more than 2 kB, takes three times as long,
  -- and saves less.
  content bytea not null,
  is_compressed boolean not null,
  primary key (project_id, hash)
);
alter table prompt_texts alter column content set storage external;

-- Chains of parts now also link what is no message: {"position": ..., "type": ..., ...}, and the text by its hash.
alter table parts drop constraint parts_role_check;
alter table parts add constraint parts_role_check
  check (role in ('user', 'assistant', 'system', 'tool', 'tool_result', 'thinking', 'other', 'binary')) not valid;
alter table parts add column text_hash bytea;

-- The last part of the system prompts and tools of a call, and of everything else that is no message. `extras` has the texts of calls that
-- were stored before.
alter table call_texts add column context_hash bytea;
alter table call_texts add column extras_hash bytea;
-- False for the prompts of older releases, until they are converted.
alter table call_texts add column shares_texts boolean not null default false;

-- Ends of chains that a deleted prompt no longer refers to. A trigger notes them, also for prompts that an older release
-- deletes; src/memory/conversations/released-parts.ts deletes what nothing else uses.
create table released_parts (
  project_id uuid not null,
  hash bytea not null
);
create index released_parts_by_project on released_parts (project_id);
create function note_released_parts() returns trigger language plpgsql as $$
begin
  insert into released_parts (project_id, hash)
  select distinct project_id, hash
    from deleted cross join lateral unnest(array[last_hash, context_hash, extras_hash]) as ended (hash)
   where hash is not null;
  return null;
end $$;
create trigger call_texts_released after delete on call_texts
  referencing old table as deleted for each statement execute function note_released_parts();
