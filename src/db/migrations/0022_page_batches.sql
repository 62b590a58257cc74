-- A batch that writes a page anew and reads no messages.
alter table memory_batches drop constraint memory_batches_kind_check;
alter table memory_batches add constraint memory_batches_kind_check check (kind in ('normal', 'remember', 'page'));
