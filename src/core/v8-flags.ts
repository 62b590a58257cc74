/**
 * Sets the V8 flags of the gateway. V8 only accepts code from Node's compile cache if it was compiled with the same
 * flags. So everything that fills the cache for the gateway has to call this before it loads any modules.
 */
import { setFlagsFromString } from 'node:v8';

export function setV8Flags(): void {
  // V8 would allocate objects that are likely to live long, such as lists of settled calls, directly in the old space.
  // A list there keeps its calls alive until the old space is collected, long after they have been stored, and so each
  // call gets copied twice.
  setFlagsFromString('--no-allocation-site-pretenuring');
}
