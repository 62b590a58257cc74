-- Personal access tokens, with which people use MCP. The text of a token is gwp_<prefix>_<secret>; only its SHA-256 is stored.
create table personal_tokens (
  id uuid primary key,
  person_id uuid not null references people (id) on delete cascade,
  prefix text not null unique,
  token_sha256 bytea not null,
  name text not null,
  scopes text[] not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Written at most once a minute.
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index personal_tokens_by_person on personal_tokens (person_id, id);
