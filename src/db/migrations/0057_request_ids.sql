-- The id that the vendor gave the request of an attempt. Null for older attempts, and if the vendor sent none.
alter table attempts add column request_id text;
-- The parameters of the request, such as the temperature, as JSON. Null for older calls.
alter table call_texts add column parameters text;
