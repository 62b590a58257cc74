-- concurrently
-- Words of memories alone: recall searches them, and recorded calls add passages of conversations without end.
create index memory_passages_item_lexemes on memory_passages using gin (lexemes) where item_id is not null;
