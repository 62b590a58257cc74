-- The member of a provider's pool that an attempt was sent to. Null if the provider has no pool.
alter table attempts add column member text;
