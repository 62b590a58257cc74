-- Imported rows of the catalog, and what each model has cost since when.

create table catalog_models (
  -- <provider>/<model>
  model text primary key,
  -- The row as gateway.yaml would hold it, checked by src/config/catalog.ts.
  content jsonb not null,
  imported_at timestamptz not null
);

-- A row for each change of a price in force, whatever it came from. It holds until the model's next row.
create table model_prices (
  model text not null,
  effective_from timestamptz not null,
  -- Whole nano-dollars as text, by what is charged (src/usage/prices/stored-price.ts); null: the price was unknown from then on.
  price jsonb,
  source text not null check (source in ('file', 'import', 'starter')),
  primary key (model, effective_from)
);
