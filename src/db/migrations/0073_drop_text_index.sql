-- Replaced by parts_by_text_start. Version 0.1 doesn't use it.
drop index parts_by_text;
