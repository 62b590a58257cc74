/** The worker thread that's started by `low-priority-thread.ts`. */
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

/** This is best effort, because only Linux has thread priorities. */
function lowerPriority(): void {
  try {
    const thread = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(thread, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // On other systems the thread competes with the event loop if there is only a single core.
  }
}
