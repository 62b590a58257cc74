/** Waits until the condition holds. Throws an error with the given sentence after `limitMs`. */
export async function until(sentence: string, condition: () => boolean | Promise<boolean>, limitMs = 120_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`this did not happen within ${limitMs} ms: ${sentence}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
