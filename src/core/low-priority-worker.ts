/** The thread of `low-priority-thread.ts`. */
import { readlinkSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { type JobReply, type JobRequest, movedMemory } from './low-priority-thread.ts';

lowerPriority();

parentPort?.on('message', (request: JobRequest) => {
  run(request).then(
    (result) => reply({ result }, result),
    (error: unknown) => reply({ error }),
  );
});

async function run({ module, name, input }: JobRequest): Promise<object> {
  const { [name]: work } = await import(module);
  return await work(input);
}

function reply(message: JobReply, moved: object = {}): void {
  parentPort?.postMessage(message, movedMemory(moved));
}

/** Best effort: only Linux has priorities of threads. */
function lowerPriority(): void {
  try {
    const thread = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(thread, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // On other systems the thread competes with the event loop for a single core.
  }
}
