-- Rows of videos are deleted some time after they have settled (src/videos/delete-settled.ts).

create index videos_by_settling on videos (settled_at) where settled_at is not null;
