-- How a person wants to see the console. Null means: the theme of the browser, and the time zone of the project.
alter table people add column theme text;
alter table people add column time_zone text;
