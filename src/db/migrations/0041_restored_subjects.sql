-- When an import restored data of an erased subject (src/memory/portability/import-memory.ts): from then on, rows from before the erasure are
-- no residue of it.
alter table erasures add column restored_at timestamptz;
