/**
 * The sentences that we show to operators in Temporal, e.g. in summaries, details and failure messages. Temporal stores
 * them in plain text for everybody with access to its UI. That's why we only create them from the templates below, in
 * which nothing varies except counts, ids, codes, times and project slugs.
 *
 * Texts that `isNote` recognizes stay unencrypted. The payload codecs reject all other sentences.
 */

/** Maps each step of the daily cleanup to what it deletes or updates. The steps run in this order. */
export const cleanupTasks = {
  'deletion-periods': 'deletion periods that take effect',
  conversations: 'old conversations',
  'loose-prompts': 'prompts without a conversation',
  'released-parts': 'messages of deleted prompts',
  'closed-memories': 'expired memories',
  batches: 'old learning batches',
  'empty-erasures': 'old erasures that found nothing',
  'attempt-errors': 'old reasons of failed attempts',
  'refused-calls': 'old refused calls',
  videos: 'expired videos',
  counters: 'expired counters',
  'sign-ins': 'ended sessions and sign-in links',
  'rule-hits': 'old hits of content rules',
  outbox: 'undeliverable outbox rows',
  'old-prompts': 'prompts stored by older versions',
  'old-words': 'memory texts indexed by older versions',
  words: 'word statistics',
  'vector-indexes': 'vector indexes',
} as const;

/**
 * A pattern for each kind of slot. A value that doesn't match is shown as `?`, so that a note can never make a workflow
 * fail.
 */
const slots = {
  count: String.raw`\d{1,12}`,
  /** Matches UUIDs, workflow ids, and the names of the gateway's models and operations. */
  id: '[A-Za-z0-9_:/.-]{1,200}',
  slug: '[a-z0-9][a-z0-9-]{0,62}',
  /** Matches the gateway's error codes, and the vendors' codes that our filter lets through. */
  code: '[A-Za-z][A-Za-z0-9_]{0,63}',
  /**
   * Matches a time such as `14:05 UTC`. Seconds are included if the time is near, and the date if it's on another day.
   */
  time: String.raw`(?:\d{4}-\d\d-\d\d )?\d\d:\d\d(?::\d\d)? UTC`,
  step: 'learn|consolidate',
  task: `${Object.values(cleanupTasks).join('|')}|step [A-Za-z0-9-]{1,64}`,
} as const;

export const templates = {
  // Static summaries, one per workflow.
  conversationIdle: '{slug}: close a conversation when it is idle',
  dailyCleanup: 'daily cleanup of expired data',
  idleConversations: '{slug}: close conversations when they are idle, run {count}',
  embedMemory: '{slug}: compute embeddings, run {count}',
  learningBatch: '{slug}: learning batch {id}',
  projectLearning: '{slug}: start learning batches when they are due',
  subjectErasure: '{slug}: erasure {id} of a subject',
  videoOperation: '{slug}: follow the video of call {id}',

  // Static details. They explain what a run is for, followed by a Markdown list of ids to paste into the API or the
  // CLI.
  aboutConversation:
    'Begins when the conversation has been idle for the idle time, then closes it, so that memory can learn from it. Until then there is nothing to do.',
  aboutConversations:
    'Closes each conversation of this project once it has been idle for the idle time, so that memory can learn from it. Ends when no conversation is open.',
  aboutCleanup: 'Deletes expired data and updates indexes, one kind after the other. Started daily by the schedule `daily-cleanup`.',
  aboutEmbeddings: 'Computes the missing embeddings of stored memories, so that search finds them by meaning.',
  aboutBatch: 'Learns memories from the messages of a batch, group by group, with the memory model.',
  aboutLearning: 'Starts learning batches for messages of this project, one at a time, as long as the project exists.',
  aboutErasure:
    'The tables hold no data of the subject any more. Waits until every process has dropped it, deletes its runs, and verifies the result.',
  aboutVideo: 'Asks the vendor for the state of the video until it has ended, then settles its cost.',
  project: '- Project: {slug} ({id})',
  conversation: '- Conversation: {id}',
  opening: '- Opening: {count}',
  showBatch: '- Inspect: `gateway batches show {id}`',
  replayBatch: '- Replay: `gateway batches replay {id}`',
  projectRun: '- Run: {count}',
  erasure: '- Erasure: {id}',
  call: '- Call: {id}',

  // Temporal's UI shows these as descriptions of the signal and query handlers.
  statusQuery: 'Returns what the run does now.',
  wakeSignal: 'Checks or tries again now instead of at the end of the wait.',
  replaySignal: 'Sent by a replay. To replay a failed batch, reset its run or signal the run of its project.',
  replayProjectSignal: 'Replays all failed batches of the project.',

  // summaries of activities and timers
  closeIfIdle: 'close the conversation if it is idle',
  idleCheck: 'the conversation continues; check again at {time}',
  closeIdle: 'close the conversations that are idle',
  nextIdleCheck: '{count} conversations are open; next check at {time}',
  pollVideo: 'poll the vendor, poll {count}',
  nextPoll: 'the vendor works on the video; next poll at {time}',
  nextPollUnreachable: 'no usable response; next poll at {time}',
  embedPassages: 'compute missing embeddings, slice {count}',
  checkProcesses: 'check that every process applies the erasure, check {count}',
  processesMissing: '{count} of {count} processes apply it; next check at {time}',
  nextCheck: 'next check at {time}',
  purgeRuns: 'delete runs of the subject, slice {count}',
  finishErasure: 'verify that no data of the subject is left',
  openBatch: 'read the state of the batch',
  finishBatch: 'close the batch; {count} of {count} groups have ended, parked in this run: {count}',
  groupSkipped: 'group {count} of {count} is {code}: nothing to consolidate',
  checkLearning: 'start a batch if one is due',
  replayBatches: 'replay the failed batches of the project',
  groupStep: '{step} group {count} of {count}, try {count}',
  scheduledGroup: 'group {count} of {count} starts at {time}',
  pendingGroup: 'group {count} of {count} is still waiting from an earlier run; next try at {time}',
  failedGroup: '{step} group {count} of {count} failed ({code}); next try at {time}',
  waitingGroup: '{step} group {count} of {count} waits ({code}); next check at {time}',
  failedTry: 'try {count} failed ({code}); next try at {time}',
  cleanupStep: 'cleanup: {task}',
  cleanupTry: 'cleanup: {task}, try {count} of {count}',

  // Shown after an activity has failed, in any kind of run.
  tryFailed: 'Try {count} failed ({code}); next try at {time}.',
  tryFailedOf: 'Try {count} of {count} failed ({code}); next try at {time}.',
  tryRuns: 'Try {count} runs; the one before failed ({code}).',
  cancelled: 'An operator cancelled this run.',
  turnedAway: 'Not started yet: other work of this project uses up its share. Temporal tries again by itself.',

  nextNothing: 'Next: nothing to do.',
  nextByItself: 'Next: nothing to do; the run continues automatically.',
  nextRestart: 'Next: nothing to do. The gateway starts unfinished work again within a day, as a new run.',
  nextModel: 'Next: check the model and its provider; see the failed calls of the application `gateway-memory`.',
  nextLog: 'Next: see `activity failed` in the log of the workers.',
  nextMemoryOff: 'Next: turn memory on, which wakes this run: `gateway memory set --project {slug} --memory on`',
  nextRoute: 'Next: configure a model for the tier `memory-extract` or `trivial`; then the run continues automatically.',
  triesAgain: 'While the status is Running, the next try starts automatically. To start it now, send the signal `look`.',
  triesAgainOf:
    'While the status is Running, the next try starts automatically. To start it now, send the signal `look`, which uses up that try.',
  nextSignal: 'Next: nothing to do; the next message to learn wakes this run.',
  nextLearning: 'Next: nothing to do; a batch starts when {count} messages wait, and at {time} at the latest.',
  nextReplayProject: 'Next: correct the cause, then send the signal `replay` to this run, or:',
  replayFailed: '- `gateway batches replay --project {slug} --state failed`',
  nextBlocked: 'Next: find the cause. The runs of these batches say what to do:',
  listWaiting: '- `gateway batches list --project {slug} --state waiting`',
  nextReplayStopped: 'Next, if they should be learned after all:',
  replayStopped: '- `gateway batches replay --project {slug} --state stopped`',
  nextParkedUnusable:
    'Next: the model does not answer with the JSON it is asked for. Choose another for the memory tier, then reset this run or replay the batch.',
  nextFailingUnusable:
    'Next: the model does not answer with the JSON it is asked for. Choose another for the memory tier, or give up: `gateway batches stop {id}`',
  nextFailing: 'Next: correct the cause of the error, or give up: `gateway batches stop {id}`',
  nextParked: 'Next: correct the cause of `{code}`, then reset this run or replay the batch.',
  nextReplayCancelled: 'Next: the batch is stopped. If it should be learned after all: `gateway batches replay {id}`',
  nextProcesses: 'Next: restart a process that is in this list for more than two minutes. One that has ended leaves it after a minute.',
  nextResidue: 'Next: see the error in the log of the workers; it names the tables.',
  nextVideoUnreachable: 'Next: check that the provider of the video is still configured and answers. The run polls again automatically.',
  nextCleanup:
    'Next: see `activity failed` in the log of the workers and correct its cause. To run the cleanup now, trigger the schedule `daily-cleanup`.',

  // Shown while a run is working, by kind of run.
  waitsForIdle: 'The conversation continues; next check at {time}.',
  conversationClosed: 'The conversation is closed.',
  conversationGone: 'The conversation was deleted.',
  conversationSuperseded: 'The conversation was opened again; a newer run is responsible for it.',
  conversationsWait: 'Open conversations that are not idle yet or are closed next: {count}. Next check at {time}.',
  conversationsClosed: 'Conversations that this run has closed: {count}.',
  noConversationsWait: 'No conversation is open. The next one starts a new run.',
  conversationsSuperseded: 'A newer run closes the conversations of this project.',
  videoRuns: 'The vendor works on the video. Polls: {count}; next at {time}.',
  videoUnreachable: 'The vendor does not respond or does not know the video. Polls: {count}; next at {time}.',
  videoGivesUp: 'If the vendor does not say how it ended, the run gives up at {time}.',
  videoCompleted: 'The video is completed, and its cost is settled.',
  videoGone: 'The video was deleted.',
  videoSettled: 'The video has ended, and its cost is settled.',
  videoFailed: 'The vendor could not make the video ({code}); it costs nothing.',
  videoFailedState: 'The gateway followed the video to its end, so this run is Completed, but its `GatewayState` is `failed`.',
  videoUnknown: 'The vendor forgot the video without saying how it ended; its full price is charged.',
  'vendorCode:filtered': 'Next: the safety filter of the vendor rejected the video. The caller has to change the prompt.',
  'vendorCode:empty': 'Next: the vendor answered without a video and without a reason. The caller can start the video again.',
  'vendorCode:request': 'Next: the vendor rejected the request. The caller has to correct the parameters or the prompt.',
  'vendorCode:credentials':
    'Next: the vendor refused the API key. Check the key of the provider, then the caller can start the video again.',
  'vendorCode:quota': 'Next: the quota of the API key is exhausted. Raise it, then the caller can start the video again.',
  'vendorCode:other': 'Next: the vendor reports an error on its side. The caller can start the video again.',
  embedding: 'Computing embeddings. Passages so far: {count}.',
  embedded: 'All embeddings are computed. Passages of this run: {count}.',
  embeddingNoRoute: 'No embeddings are computed, because the project has no model for embeddings. Passages of this run: {count}.',
  embeddingSuperseded: 'A newer run computes the embeddings. Passages of this run: {count}.',
  nextEmbeddingRoute: 'Next: to search by meaning, configure a route for embeddings. The gateway then computes them within a day.',
  erasureWaits: 'Waiting until every process applies the erasure. Next check at {time}.',
  erasureProcesses: '{count} of {count} processes apply the erasure. Next check at {time}.',
  erasureProcess: '- not yet: process {id}',
  erasurePurges: 'Deleting runs that concern the subject.',
  erasureVerifies: 'Verifying that no data of the subject is left.',
  erased: 'The subject is erased. No process, table or run in Temporal holds data of it.',
  erasedBefore: 'The erasure was finished by an earlier run.',
  erasureGone: 'The erasure was deleted with its project.',
  memoryOff: 'Memory is off. Messages that wait: {count}.',
  learningUnknown: 'Waiting for a signal: memory is off, or no messages wait.',
  learningIdle: 'No messages wait for a batch.',
  learningRuns: 'A learning batch runs. This run goes on when the batch has ended.',
  learningRunsBatch: 'Learning batch {id} runs. This run goes on when the batch has ended.',
  learningWaits: 'Too few messages for a batch. Next check at {time}.',
  messagesWait: '{count} of {count} messages for a batch wait. Next check at {time}.',
  batchesFailed: 'Failed batches at the last check: {count}.',
  batchesFailing: 'Batches that fail with unusable responses and are retried at most daily, at the last check: {count}.',
  nextFailingProject: 'Next: correct the cause, then send the signal `replay` to this run, or see the batches:',
  listFailing: '- `gateway batches list --project {slug} --state failing`',
  batchesStopped: 'Batches stopped by an operator at the last check: {count}.',
  batchesBlocked: 'Batches that wait for a setting of the project at the last check: {count}.',
  replayed: 'Batches replayed by the last signal: {count}.',
  projectGone: 'The project was deleted.',
  batchProgress: '{count} of {count} groups have ended.',
  groupRuns: '- {step} group {count} of {count}, try {count}: runs',
  groupScheduled: '- {step} group {count} of {count} starts at {time}',
  groupFailed: '- {step} group {count} of {count}, try {count}: failed ({code}); next try at {time}',
  groupUnusable: '- {step} group {count} of {count}, try {count}: unusable response {count} of {count} ({code}); next try at {time}',
  groupFailing:
    '- {step} group {count} of {count}, try {count}: {count} unusable responses in a row ({code}); the waits grow to a day; next try at {time}',
  groupAwaitsCall: '- {step} group {count} of {count}: waits for the model call of an earlier run; next check at {time}',
  groupBlocked: '- {step} group {count} of {count}: waits for a setting of the project ({code}); next check at {time}',
  groupsParked: '{count} of {count} groups parked after {count} unusable responses ({code}); replay: gateway batches replay {id}',
  batchStopped: 'an operator stopped the batch; replay: gateway batches replay {id}',
  batchDone: 'The batch is learned. All its memories: written {count}, repeated {count}, dropped {count}, merged {count}; facts: {count}.',
  batchEnded: 'The batch is learned.',
  batchGone: 'The batch was deleted.',
  cleanupPosition: 'Step {count} of {count}: {task}.',
  cleanupRuns: 'Running: {task}.',
  cleanupDone: 'All steps are done. Rows deleted or changed:',
  cleanupFailed: 'cleanup: {task} failed {count} times ({code}); the next daily run starts over',
  cleanupRows: '- {task}: {count} rows',
  cleanupStepFailed: '- {task}: failed',
  cleanupNotRun: '- {task}: not run',
} as const satisfies Record<string, string>;

export type NoteName = keyof typeof templates;

type SlotValues<Template extends string> = Template extends `${string}{${string}}${infer Rest}`
  ? [string | number, ...SlotValues<Rest>]
  : [];

const slotPattern = /\{(\w+)\}/g;

const slotMatchers = new Map(Object.entries(slots).map(([slot, pattern]) => [slot, new RegExp(`^(?:${pattern})$`)]));

/** Creates a note from a template. The values are inserted into its slots in order. */
export function note<Name extends NoteName>(name: Name, ...values: SlotValues<(typeof templates)[Name]>): string {
  const remaining: (string | number)[] = [...values];
  return templates[name].replace(slotPattern, (_, slot: string) => {
    const value = String(remaining.shift());
    return slotMatchers.get(slot)?.test(value) ? value : '?';
  });
}

/** Times that are closer than this are shown with seconds. */
const nearMs = 120_000;

/** Formats a time in UTC. Includes the date unless it's today. */
export function formatClockTime(at: Date): string {
  const [date, time] = at.toISOString().split('T');
  const now = new Date();
  const isToday = now.toISOString().startsWith(`${date}T`);
  const length = Math.abs(at.getTime() - now.getTime()) < nearMs ? 'hh:mm:ss'.length : 'hh:mm'.length;
  return `${isToday ? '' : `${date} `}${time?.slice(0, length)} UTC`;
}

/**
 * Joins notes into a Markdown text. Adjacent list items become one list, and each of the other notes becomes a
 * paragraph.
 */
export function toMarkdown(notes: readonly string[]): string {
  const isItem = (text: string | undefined): boolean => text?.startsWith('- ') ?? false;
  return notes.map((text, index) => `${index === 0 ? '' : isItem(text) && isItem(notes[index - 1]) ? '\n' : '\n\n'}${text}`).join('');
}

/** Matches a line of a note, i.e. anything that one of the templates can create. */
const linePattern = new RegExp(`^(?:${Object.values(templates).map(toPattern).join('|')})$`);

/** Checks whether every line of a text was created from a template. Empty lines between them are allowed. */
export function isNote(text: string): boolean {
  return text.length <= 6_000 && text.split(/\n{1,2}/).every((line) => linePattern.test(line));
}

function toPattern(template: string): string {
  return template
    .replace(/[.*+?^$()[\]\\|]/g, String.raw`\$&`)
    .replace(slotPattern, (_, slot: keyof typeof slots) => String.raw`(?:${slots[slot]}|\?)`);
}
