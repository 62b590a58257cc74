-- Texts get the forms of words that aren't English (src/memory/text/word-forms.ts). The daily cleanup indexes older texts again.
drop index memory_passages_old_words;
drop index memory_facts_old_words;
create index memory_passages_old_words on memory_passages (id) where words_version < 3;
create index memory_facts_old_words on memory_facts (id) where words_version < 3;
