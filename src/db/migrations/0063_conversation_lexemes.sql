-- concurrently
-- Lexemes of conversations on their own. In the index of all passages, a search of conversations reads the memories that contain its words too.
create index memory_passages_conversation_lexemes on memory_passages using gin (lexemes) where conversation_id is not null;
