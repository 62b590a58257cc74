-- How often content rules matched, by rule and hour, with the ids of the newest calls (src/projects/rule-hits.ts). `rule`
-- is a hash of the rule's class, place and expression.
create table content_rule_hits (
  project_id uuid not null references projects (id),
  rule text not null,
  hour timestamptz not null,
  hits bigint not null,
  calls uuid[] not null,
  primary key (project_id, rule, hour)
);
create index content_rule_hits_by_hour on content_rule_hits (hour);
