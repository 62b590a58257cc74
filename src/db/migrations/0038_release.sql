-- The release of the gateway that applied a migration, for the message to an older one that the schema does not support any more.
alter table schema_migrations add column release text;
