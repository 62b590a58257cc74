-- What a memory says word for word, as `src/memory/same-words.ts` folds it: a server with the locale C folds only ASCII letters itself.
alter table memory_items add column words_sha256 bytea;
update memory_items
   set words_sha256 = sha256(convert_to(lower(regexp_replace(btrim(text, E' \t\n\r.'), '\s+', ' ', 'g')), 'UTF8'));
alter table memory_items alter column words_sha256 set not null;
drop index memory_items_by_words;
create index memory_items_by_words on memory_items (project_id, words_sha256);
