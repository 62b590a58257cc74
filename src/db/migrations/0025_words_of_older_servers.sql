-- A server of before 0017 writes memories without this while a deployment rolls. What it writes so is no repeat of anything.
alter table memory_items alter column words_sha256 drop not null;
