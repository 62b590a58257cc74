/**
 * A scripted model that returns the statements that the learning set specifies for a conversation. Some of them are
 * correct and others have to be refused.
 */

/** @type {import('./learn.js').AskModel} */
export async function askScripted({ job }, { scripted }) {
  if (job === 'consolidate') return JSON.stringify({ merges: [], facts: [], page: '' });
  return JSON.stringify({ memories: scripted.map(({ refused: _, ...statement }) => ({ ...statement, importance: 3 })) });
}

/**
 * Lists the statements that weren't refused although they should have been, that were refused although they shouldn't
 * have been, or that were refused for a different reason.
 * @param {import('./learning-set.js').LearningCase} learningCase
 * @param {import('./learn.js').Learned} learned
 */
export function checkScripted({ conversations }, { refusals }) {
  const expected = conversations.flatMap(({ scripted }) => scripted.flatMap(({ refused }) => refused ?? []));
  return expected.join() === refusals.join() ? [] : [`refused: ${refusals.join() || 'nothing'}, expected: ${expected.join() || 'nothing'}`];
}
