/**
 * The fence around recalled memories in a prompt. By it they are known again: whatever stands inside of it is never stored, searched for or
 * learned, also when a client sends it back in its history (lessons 36).
 */

const begin = '[gateway memory: begin]';
const end = '[gateway memory: end]';

export function fenceRecalled(text: string): string {
  return `${begin}\n${text}\n${end}`;
}

/** The text without fenced blocks; one that is never closed goes to the end. */
export function withoutRecalled(text: string): string {
  let start = text.indexOf(begin);
  if (start < 0) return text;
  const kept: string[] = [];
  let at = 0;
  while (start >= 0) {
    kept.push(text.slice(at, start));
    const close = text.indexOf(end, start);
    at = close < 0 ? text.length : close + end.length;
    start = text.indexOf(begin, at);
  }
  kept.push(text.slice(at));
  return kept.join('').trim();
}
