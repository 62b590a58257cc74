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
  code: '[A-Za-z][A-Za-z0-9_]{0,63}',
  /** `14:05 UTC`, with the date on another day than the note's. */
  time: String.raw`(?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC`,
} as const;

export const templates = {
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
  showBatch: '- Inspect: `gateway batches show {id}`',
  replayBatch: '- Replay a failed batch: reset this run, or `gateway batches replay {id}`',
  replayProject: '- Replay all failed batches of the project: signal `replay`',
  embeddingRun: '- Run: {count}',
  erasure: '- Erasure: {id}',
  call: '- Call: {id}',
  cleanupDocs: '- Each step deletes or compacts one kind of expired data; the current step is in the current details',

  // Descriptions of handlers.
  statusQuery: 'Returns what the run does now.',
  wakeSignal: 'Checks again now instead of at the end of the wait.',
  replaySignal: 'Sent by a replay. To replay a failed batch, reset its run or signal the run of its project.',
  replayProjectSignal: 'Replays all failed batches of the project.',

  // Activities and timers.
  readIfIdle: 'read the conversation if it is idle',
  idleCheck: 'the conversation continues; check again at {time}',
  pollVideo: 'poll the vendor, poll {count}',
  nextPoll: 'next poll at {time}',
  embedPassages: 'compute missing embeddings, slice {count}',
  checkProcesses: 'check that every process applies the erasure, check {count}',
  nextCheck: 'next check at {time}',
  purgeRuns: 'delete runs of the subject, slice {count}',
  finishErasure: 'verify that no data of the subject is left',
  openBatch: 'read the state of the batch',
  finishBatch: 'close the batch unless a group is pending',
  checkLearning: 'start a batch if one is due',
  replayBatches: 'replay the failed batches of the project',
  learnGroup: 'learn group {count} of {count}, try {count}',
  consolidateGroup: 'consolidate group {count} of {count}, try {count}',
  nextTry: 'next try at {time}',

  // Current details.
  waitsForIdle: 'Waiting for the end of the conversation; next check at {time}.',
  videoRuns: 'The vendor works on the video; polls: {count}, next at {time}.',
  videoUnreachable: 'The vendor does not respond or does not know the video; polls: {count}, next at {time}.',
  videoFailed: 'The vendor failed the video ({code}); it costs nothing.',
  videoUnknown: 'The vendor forgot the video without saying how it ended; its full price is charged.',
  embedding: 'Computing embeddings; passages so far: {count}.',
  embedded: 'All embeddings are computed; passages of this run: {count}.',
  erasureWaits: 'Waiting until every process applies the erasure; checks: {count}, next at {time}.',
  erasurePurges: 'Deleting runs that concern the subject.',
  erasureVerifies: 'Verifying that no data of the subject is left.',
  ended: 'Ended: {code}.',
  learningIdle: 'No messages wait, or memory is off; a signal follows when that changes.',
  learningRuns: 'A batch runs and signals its end.',
  learningWaits: 'Too few messages for a batch; next check at {time}.',
  replayed: 'Batches replayed: {count}.',
  batchProgress: '{count} of {count} groups settled.',
  groupRuns: '- Group {count}: {code}, try {count}, runs.',
  groupWaits: '- Group {count}: {code} failed ({code}), tries: {count}; next try at {time}.',
  groupAwaitsCall: '- Group {count}: waits for the model call of an earlier run; next check at {time}.',
  groupBlocked: '- Group {count}: waits for the settings of the project ({code}); next check at {time}.',
  groupsParked: '{count} of {count} groups parked after {count} unusable responses ({code}); replay: gateway batches replay {id}',

  // Steps of the daily cleanup.
  'cleanup:conversations': 'cleanup: old conversations',
  'cleanup:loose-prompts': 'cleanup: prompts without a conversation',
  'cleanup:closed-memories': 'cleanup: expired memories',
  'cleanup:batches': 'cleanup: old learning batches',
  'cleanup:videos': 'cleanup: expired videos',
  'cleanup:counters': 'cleanup: expired counters',
  'cleanup:outbox': 'cleanup: undeliverable outbox rows',
  'cleanup:old-words': 'cleanup: reindex memory texts of older versions',
  'cleanup:words': 'cleanup: word statistics',
  'cleanup:vector-indexes': 'cleanup: vector indexes',
  cleanupStep: 'cleanup: step {id}',
  cleanupRows: '- {id}: {count} rows',
  cleanupFailed: 'step {id} of the cleanup failed at every try ({code}); the next daily run starts over',
} as const satisfies Record<string, string>;

export type NoteName = keyof typeof templates;

type SlotValues<Template extends string> = Template extends `${string}{${string}}${infer Rest}`
  ? [string | number, ...SlotValues<Rest>]
  : [];

const slotPattern = /\{(\w+)\}/g;

const slotMatchers = new Map(Object.entries(slots).map(([slot, pattern]) => [slot, new RegExp(`^${pattern}$`)]));

/** Fills the slots of a template in their order. */
export function note<Name extends NoteName>(name: Name, ...values: SlotValues<(typeof templates)[Name]>): string {
  const remaining: (string | number)[] = [...values];
  return templates[name].replace(slotPattern, (_, slot: string) => {
    const value = String(remaining.shift());
    return slotMatchers.get(slot)?.test(value) ? value : '?';
  });
}

/** The time in UTC, with the date unless it is today. */
export function formatClockTime(at: Date): string {
  const [date, time] = at.toISOString().split('T');
  const isToday = new Date().toISOString().startsWith(`${date}T`);
  return `${isToday ? '' : `${date} `}${time?.slice(0, 5)} UTC`;
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
