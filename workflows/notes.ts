/**
 * Sentences for operators in Temporal: summaries, details, failure messages. Temporal stores them in plain text and shows them to everyone who
 * may see its UI, so they are made from the templates below and nothing else: only counts, ids, codes, times and project slugs vary.
 *
 * The payload codecs pass a text that `isNote` recognizes, unencrypted, and reject every other sentence.
 */

/** What each slot accepts. A value that does not match is shown as `?`, so a note never fails a workflow. */
const slots = {
  count: String.raw`\d{1,12}`,
  /** UUIDs, workflow ids, model and operation names of the gateway. */
  id: '[A-Za-z0-9_:/.-]{1,200}',
  slug: '[a-z0-9][a-z0-9-]{0,62}',
  /** Codes of the gateway and of vendors that passed its own code filter. */
  code: '[a-z][a-z0-9_]{0,63}',
  /** `14:05 UTC`, with the date on another day than the note's. */
  time: String.raw`(?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC`,
} as const;

const templates = {
  // Static summaries: one line per workflow.
  conversationIdle: '{slug}: read a conversation when it is idle',
  dailyCleanup: 'daily cleanup of expired data',
  embedMemory: '{slug}: compute embeddings, run {count}',
  learningBatch: '{slug}: learning batch {id}',
  projectLearning: '{slug}: start learning batches when they are due',
  subjectErasure: '{slug}: erasure {id} of a subject',
  videoOperation: '{slug}: follow the video of call {id}',

  // Static details: Markdown lists of ids that the API and the CLI take.
  project: '- Project: {slug} ({id})',
  episode: '- Episode: {id}',
  opening: '- Opening: {count}',
  batch: '- Batch: {id}',
  showBatch: '- Inspect: `gateway batches show {id} --project {slug}`',
  replayBatch: '- Replay when it failed: reset this run, or `gateway batches replay {id} --project {slug}`',
  replayProject: '- Replay all failed batches of the project: signal `replay`',
  embeddingRun: '- Run: {count}',
  erasure: '- Erasure: {id}',
  call: '- Call: {id}',
  cleanupDocs: '- Each step deletes or compacts one kind of expired data; the current step is in the current details',

  // Descriptions of handlers.
  statusQuery: 'Returns what the run does now.',
} as const satisfies Record<string, string>;

type NoteName = keyof typeof templates;

type SlotValues<Template extends string> = Template extends `${string}{${string}}${infer Rest}`
  ? [string | number, ...SlotValues<Rest>]
  : [];

const slotPattern = /\{(\w+)\}/g;

/** Fills the slots of a template in their order. */
export function note<Name extends NoteName>(name: Name, ...values: SlotValues<(typeof templates)[Name]>): string {
  const remaining: (string | number)[] = [...values];
  return templates[name].replace(slotPattern, (_, slot: keyof typeof slots) => {
    const value = String(remaining.shift());
    return new RegExp(`^${slots[slot]}$`).test(value) ? value : '?';
  });
}

/** Matches one line that a template makes. */
const linePattern = new RegExp(`^(?:${Object.values(templates).map(toPattern).join('|')})$`);

/** Whether each line of a text is a note. */
export function isNote(text: string): boolean {
  return text.length <= 4_000 && text.split('\n').every((line) => linePattern.test(line));
}

function toPattern(template: string): string {
  return template
    .replace(/[.*+?^$()[\]\\|]/g, String.raw`\$&`)
    .replace(slotPattern, (_, slot: keyof typeof slots) => String.raw`(?:${slots[slot]}|\?)`);
}
