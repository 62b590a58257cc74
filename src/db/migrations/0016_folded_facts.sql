-- As with passages (0009): whoever writes a fact writes its lexemes, and whoever writes an entity its name in lower case. A server with the
-- locale C folds only ASCII letters itself.
alter table memory_facts alter column lexemes drop expression;

alter table memory_entities add column folded_name text;
update memory_entities set folded_name = lower(name);
alter table memory_entities alter column folded_name set not null;
drop index memory_entities_by_name;
create unique index memory_entities_by_name on memory_entities (project_id, folded_name, coalesce(subject, ''));
