-- Extras of a prompt that were new together, e.g. the tool results of a turn, with their texts. Such a part has the role `extras`, and
-- only the last of its extras has a hash. The format is described in src/memory/conversations/packed-extras.ts.
alter table parts add column packed bytea;
-- It's compressed already.
alter table parts alter column packed set storage external;
alter table parts drop constraint parts_role_check;
alter table parts add constraint parts_role_check
  check (role in ('user', 'assistant', 'system', 'tool', 'tool_result', 'thinking', 'other', 'binary', 'extras')) not valid;
