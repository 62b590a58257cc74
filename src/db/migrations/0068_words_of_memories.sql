-- How many memories contain the word. `passages` counts memories and conversations, which have other words. It's 0 if an older version collected
-- the words, and searches of memories then take them for rare words until the next day.
alter table memory_words add column memories integer not null default 0;
-- Projects are counted again soon.
update memory_embeddings set counted_at = null;
