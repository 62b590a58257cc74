-- How the words of a row were made (src/memory/lexemes.ts). Rows whose words were made another way are not found by those of a query; the daily
-- cleanup makes them anew (src/memory/index-again.ts).
alter table memory_passages add column words_version smallint not null default 1;
alter table memory_facts add column words_version smallint not null default 1;
create index memory_passages_old_words on memory_passages (id) where words_version < 2;
create index memory_facts_old_words on memory_facts (id) where words_version < 2;
