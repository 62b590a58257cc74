-- Whether a call counts for the ceiling `calls` of its key: the embedding of a recall does not, its call takes the slot.
alter table calls add column takes_slot boolean not null default true;
