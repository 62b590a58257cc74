-- PostgreSQL collects new words in a list of up to 4 MB by default, before it adds them to the index. The file never gets smaller again, and
-- with half a megabyte the list already saves nearly as much time.
alter index memory_passages_conversation_lexemes set (gin_pending_list_limit = 512);
