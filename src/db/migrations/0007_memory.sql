-- Project memory: items, what search looks through, graph, pages, settings. A column with the end user's name is called subject, and a
-- table that has one is erased with that subject; the others go with the rows they belong to (on delete cascade).

-- One statement. Closed items are its history: corrected ones name what replaced them.
create table memory_items (
  id uuid primary key,
  project_id uuid not null references projects (id),
  subject text,
  text text not null,
  kind text not null check (kind in ('fact', 'preference', 'decision', 'event', 'procedure')),
  importance smallint not null check (importance between 1 and 5),
  pinned boolean not null default false,
  origin text not null check (origin in ('agent', 'observed', 'person')),
  author text not null,
  state text not null default 'live' check (state in ('live', 'closed')),
  ratings_useful integer not null default 0,
  ratings_wrong integer not null default 0,
  -- Of these, how many a person has overruled (Confirm in the console); two more leave the item out of recall.
  wrong_overruled integer not null default 0,
  supersedes uuid references memory_items (id) on delete set null,
  superseded_by uuid references memory_items (id) on delete set null,
  -- Of learned items: the conversation, the batch and the words it was learned from.
  conversation_id uuid references conversations (id) on delete set null,
  batch_id uuid,
  evidence text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  closed_at timestamptz
);
create index memory_items_live on memory_items (project_id, subject, created_at desc, id desc) where state = 'live';
create index memory_items_pinned on memory_items (project_id, created_at desc) where state = 'live' and pinned;
create index memory_items_trusted on memory_items (project_id, created_at desc)
  where state = 'live' and ratings_wrong = 0 and (origin = 'person' or ratings_useful > 0);
create index memory_items_by_subject on memory_items (project_id, subject) where subject is not null;
create index memory_items_closed on memory_items (closed_at) where state = 'closed';
create index memory_items_supersedes on memory_items (supersedes) where supersedes is not null;
create index memory_items_superseded_by on memory_items (superseded_by) where superseded_by is not null;
create index memory_items_by_conversation on memory_items (conversation_id) where conversation_id is not null;
create index memory_items_by_batch on memory_items (batch_id) where batch_id is not null;

-- What search looks through: one passage for each live item, several for a conversation, in its order.
create table memory_passages (
  id bigint generated always as identity primary key,
  project_id uuid not null references projects (id),
  subject text,
  item_id uuid unique references memory_items (id) on delete cascade,
  conversation_id uuid references conversations (id) on delete cascade,
  -- Kind of the item.
  kind text,
  text text not null,
  -- Word stems (weight A) and the words as they stand (weight B), so that names and other languages are found too.
  lexemes tsvector not null
    generated always as (setweight(to_tsvector('english', text), 'A') || setweight(to_tsvector('simple', text), 'B')) stored,
  -- Of length 1. Null with a model: that model's vendor refused the text.
  embedding halfvec,
  embedding_dims integer,
  embedding_model text,
  check ((item_id is null) <> (conversation_id is null))
);
create index memory_passages_lexemes on memory_passages using gin (lexemes);
create index memory_passages_by_subject on memory_passages (project_id, subject, id);
create index memory_passages_by_model on memory_passages (project_id, embedding_model, id);
create index memory_passages_by_conversation on memory_passages (conversation_id, id) where conversation_id is not null;

-- How far the vectors of a project are. There is a run of the workflow embedMemory while active.
create table memory_embeddings (
  project_id uuid primary key references projects (id),
  run integer not null default 0,
  active boolean not null default false,
  -- False: the last run found no route for embeddings. New passages then wait until something has changed.
  routable boolean not null default true,
  -- The model that the last run worked with; null: none has ended yet.
  model text,
  -- Of the last count of words.
  passages integer not null default 0,
  counted_at timestamptz
);

-- Words that many passages of a project have, with how many: search leaves them out where rarer ones tell more.
create table memory_words (
  project_id uuid not null references projects (id),
  word text not null,
  passages integer not null,
  primary key (project_id, word)
);

create table memory_entities (
  id uuid primary key,
  project_id uuid not null references projects (id),
  subject text,
  name text not null,
  created_at timestamptz not null default now()
);
create unique index memory_entities_by_name on memory_entities (project_id, lower(name), coalesce(subject, ''));
create index memory_entities_by_subject on memory_entities (project_id, subject) where subject is not null;

-- One relation between two entities, true from valid_from until valid_to.
create table memory_facts (
  id uuid primary key,
  project_id uuid not null references projects (id),
  subject text,
  source_id uuid not null references memory_entities (id) on delete cascade,
  relation text not null,
  target_id uuid not null references memory_entities (id) on delete cascade,
  fact text not null,
  lexemes tsvector not null
    generated always as (setweight(to_tsvector('english', fact), 'A') || setweight(to_tsvector('simple', fact), 'B')) stored,
  evidence text,
  batch_id uuid,
  valid_from timestamptz not null,
  valid_to timestamptz,
  superseded_by uuid references memory_facts (id) on delete set null,
  created_at timestamptz not null default now()
);
create index memory_facts_live on memory_facts (project_id, subject, created_at desc);
create index memory_facts_by_source on memory_facts (source_id, relation);
create index memory_facts_by_target on memory_facts (target_id);
create index memory_facts_superseded_by on memory_facts (superseded_by) where superseded_by is not null;
create index memory_facts_lexemes on memory_facts using gin (lexemes);

-- The items that a fact was read from.
create table memory_fact_items (
  fact_id uuid not null references memory_facts (id) on delete cascade,
  item_id uuid not null references memory_items (id) on delete cascade,
  primary key (fact_id, item_id)
);
create index memory_fact_items_by_item on memory_fact_items (item_id);

-- The knowledge page of a project, and a profile page for each subject.
create table memory_pages (
  project_id uuid not null references projects (id),
  kind text not null check (kind in ('knowledge', 'profile')),
  subject text,
  text text not null,
  batch_id uuid,
  updated_at timestamptz not null default now(),
  check ((kind = 'profile') = (subject is not null))
);
create unique index memory_pages_by_subject on memory_pages (project_id, kind, coalesce(subject, ''));

-- Shapes 12, with every default filled in (src/memory/settings.ts). No row: the defaults.
create table memory_settings (
  project_id uuid primary key references projects (id),
  settings jsonb not null,
  updated_at timestamptz not null default now()
);
