/** Sends calls continuously to a set of processes. You can change the set in the meantime. */
import type { GatewayProcess } from './gateway-process.ts';

const concurrency = 4;

export interface CallLoad {
  /** From now on, only sends calls to these processes. Resolves when the calls to all others have finished. */
  use(gateways: readonly GatewayProcess[]): Promise<void>;
  /** Resolves when another `count` calls have ended. */
  untilSent(count: number): Promise<void>;
  /** Returns the ids of all successful calls. */
  ids(): readonly string[];
  /** Returns a description of each call that failed. */
  failures(): readonly string[];
  stop(): Promise<void>;
}

interface CallLoadOptions {
  /** Creates the messages of call number `n`. */
  readonly messagesOf?: (n: number) => readonly object[];
  readonly onAnswered?: (id: string, n: number) => void;
}

/** Starts the load immediately. Stop it at the end. */
export function createCallLoad(
  key: string,
  first: readonly GatewayProcess[],
  { messagesOf = (n) => [{ role: 'user', content: `call ${n}` }], onAnswered = () => {} }: CallLoadOptions = {},
): CallLoad {
  let gateways = first;
  let isStopping = false;
  let sent = 0;
  let begun = 0;
  const ids: string[] = [];
  const failures: string[] = [];
  const running = new Map<number, GatewayProcess>();
  const send = async (gateway: GatewayProcess): Promise<void> => {
    try {
      begun += 1;
      const n = begun;
      const body = { model: 'one/echo', messages: messagesOf(n) };
      const response = await gateway.call(key, '/v1/chat/completions', body);
      const text = await response.text();
      const id = response.headers.get('x-gateway-call-id') ?? '';
      if (response.status === 200) {
        ids.push(id);
        onAnswered(id, n);
      } else {
        failures.push(`${response.status} ${text}`);
      }
    } catch (error) {
      failures.push(String(error));
    }
  };
  const loops = Array.from({ length: concurrency }, async (_, slot) => {
    while (!isStopping) {
      const gateway = gateways[(sent + slot) % gateways.length];
      if (!gateway) throw new Error('a load needs a process');
      running.set(slot, gateway);
      await send(gateway);
      running.delete(slot);
      sent += 1;
      // Leave most of the CPU time to the processes under test.
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
  });
  const until = async (condition: () => boolean): Promise<void> => {
    for (const deadline = performance.now() + 300_000; !condition(); ) {
      if (performance.now() > deadline) throw new Error(`the load is stuck after ${sent} calls: ${failures.slice(0, 3).join('; ')}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  return {
    async use(next) {
      gateways = next;
      await until(() => [...running.values()].every((gateway) => next.includes(gateway)));
    },
    async untilSent(count) {
      const goal = sent + count;
      await until(() => sent >= goal);
    },
    ids: () => ids,
    failures: () => failures,
    async stop() {
      isStopping = true;
      await Promise.all(loops);
    },
  };
}
