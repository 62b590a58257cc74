-- placeholder for tests of this branch; other branches have this migration
select 1;
