/**
 * Sets the gateway's V8 flags. V8 only uses code from Node's compile cache if it was compiled with the same flags. So
 * if you fill the cache for the gateway, call this before you load any modules.
 */
import { setFlagsFromString } from 'node:v8';

export function setV8Flags(): void {
  // Turn off pretenuring, with which V8 allocates objects directly in the old space if it expects them to live long. V8
  // does this for lists of settled calls. A list in the old space keeps its calls alive until the next collection of
  // that space, long after we've stored them, and V8 would copy each call twice.
  setFlagsFromString('--no-allocation-site-pretenuring');
  // On a busy core, V8's threads hardly get any time, so a worker thread would run its first large body for seconds in
  // V8's interpreter. With this flag, a thread compiles its own code to unoptimized machine code, which is quick.
  setFlagsFromString('--no-concurrent-sparkplug');
}
