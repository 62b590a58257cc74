/** What an error says, whatever was thrown. No `instanceof`: errors of Node's own modules are of another realm where code runs in a VM. */
import { isObject } from '../core/json/narrow.ts';

/** An error's first line, for sentences that name a reason. */
export function reasonOf(error: unknown): string {
  const text = isObject(error) && typeof error['message'] === 'string' ? error['message'] : String(error);
  return text.split('\n', 1)[0] ?? '';
}

/** The error's code, such as ENOENT. */
export function systemCodeOf(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
