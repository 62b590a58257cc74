-- Whoever writes a passage writes its lexemes, of the text in lower case: a server with the locale C folds only ASCII letters itself.
alter table memory_passages alter column lexemes drop expression;
