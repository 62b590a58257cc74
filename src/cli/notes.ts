/** Additional help texts for groups of commands. */
export const notes: Readonly<Partial<Record<string, string>>> = {
  batches: `States: running, waiting, retrying, failing, done, failed, stopped.

A batch learns memories from conversations. It is waiting while memory is off or no memory tier has a model, retrying between a failure and
its next attempt, failing after five unusable responses of the model, when it is tried again at most daily, and stopped when an operator gave
it up: with gateway batches stop, or by ending its run in Temporal. A failed or stopped batch needs a replay; its groups that are done stay. RUN is the
address of its run in Temporal's web UI.
`,
  'sign-in-link': `With --email the link signs this person in, and creates the person if the address is new. With --admin alone it creates the account
of a deployment admin, such as the first one. A link works once, within 24 hours. Opening it does not use it: the page has a button.
`,
  leases: `A dead process's leases are released automatically when its journal is recovered, and at the end of their window.
`,
  quarantine: `A record that the database rejects is kept in journal/quarantine of the data directory, and its call is stored without text. Files are deleted
with their subject, and after the deletion period of their project. Each host has its own; --url selects a service on it.
`,
  catalog: `import reads the public price table (model_prices_and_context_window.json of LiteLLM) and activates the rows of your providers' vendors
immediately. They replace built-in rows, but not rows of gateway.yaml. A provider's vendor is matched by the host of its base URL, else by the
provider's name; --as names it where neither matches.
`,
  usage: `reprice recalculates the cost of stored calls that started between --from (inclusive) and --to (exclusive) from their recorded usage:
calls, attempts and the counters of ceilings, in one transaction. Calls of unknown cost get one if there is a price. Repeating it changes
nothing. --models and --project limit it to calls served by these models, and to calls of this project. A date
means its midnight in UTC.

--prices dated uses the prices that were active when the calls started. --prices now uses the current prices, after correcting a wrong one,
and also corrects the price history of that time, so limit it to the affected models with --models; not with --project.

Videos keep the cost of their start. So do calls stored before their usage was recorded in units other than tokens (images, characters,
seconds, searches).
`,
};
