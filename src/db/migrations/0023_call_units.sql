-- What a call was counted by beside its tokens: {"images", "characters", "seconds", "searches"}. Null: nothing, or a call of before this was kept.
-- Reprice charges it again by these (src/usage/prices/charge-again.ts).
alter table calls add column units jsonb;
