/** Extra paragraphs for the help of some command groups. */
export const notes: Readonly<Partial<Record<string, string>>> = {
  batches: `States: running, waiting, retrying, failing, done, failed, stopped.

A batch learns memories from conversations. A waiting batch needs memory to be turned on, and a memory tier that has a model. A batch that
rebuilds a page also waits for half a minute before it starts. A retrying batch has failed and will be tried again soon. A failing batch has
had five unusable responses from the model, and is tried again at most once a day. A stopped batch was given up by an operator with gateway
batches stop, or its run was ended in Temporal. To continue a failed or stopped batch, replay it. Groups that are done are not repeated. RUN
is the address of the run in Temporal's web UI.
`,
  'sign-in-link': `With --email, the link signs this person in, and creates the person if the address is new. With --admin alone, it creates the account of a
deployment admin, such as the first one. A link works once, within 24 hours. It is not used up until the person presses the button on the page.
`,
  leases: `The leases of a dead process are released automatically when its journal is recovered, or at the end of their window.
`,
  quarantine: `If the database rejects a record, the gateway keeps it in journal/quarantine in the data directory, and stores the call without its text. The
files are deleted when their subject is erased, and after the deletion period of their project. Each host has its own quarantine. To list the
quarantine of another host, use --url with the address of a service on that host.
`,
  catalog: `import reads the public price table (model_prices_and_context_window.json of LiteLLM) and immediately activates the rows for the vendors of your
providers. These rows replace built-in rows, but not rows in gateway.yaml. The host of a provider's base URL or its name determines which vendor
in the table it belongs to. If neither matches, use --as.
`,
  usage: `reprice recalculates the cost of stored calls that started between --from (inclusive) and --to (exclusive) from their recorded usage. It
updates the calls, their attempts and the counters of ceilings in one transaction. Calls whose cost was unknown get a cost if there is a price.
Repeating the command changes nothing. With --models, only calls that these models served are changed, and with --project, only calls of this
project. A date stands for midnight in UTC.

--prices dated uses the prices that were active when the calls started. Use --prices now after you have corrected a wrong price. It uses the
current prices and also corrects the price history of that time, so limit it to the affected models with --models. It can't be combined with
--project.

Videos keep the cost that they had when they started. Calls that are charged by images, characters, seconds or searches keep their cost if
they were stored before the gateway recorded these units.
`,
};
