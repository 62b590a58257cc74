/** Tests tools that a conversation defines. What they cost is tested in usage-bounds.test.ts. */
import { expect, test } from '@jest/globals';
import { countAddedUses, findAddedTools, rejectAddedModels } from '../../src/dialects/routes/added-tools.ts';

const bodyOf = (content: readonly unknown[]): string => JSON.stringify({ model: 'm', messages: [{ role: 'system', content }] });
const addition = { type: 'tool_addition', tool: { type: 'tool_definition', definition: { type: 'web_search_20250305', max_uses: 7 } } };
const find = (text: string) => findAddedTools(Buffer.from(text));

test('counts the types of blocks and tools without their versions', () => {
  const found = find(bodyOf([addition, addition, { type: 'text', text: 'hi' }]));
  expect(found).toMatchObject({ maxUses: 7, isComplete: true });
  expect(Object.fromEntries(found?.counts ?? [])).toEqual({ tool_addition: 2, tool_definition: 2, web_search: 2, text: 1 });
});

test('finds no tools in an ordinary conversation', () => {
  expect(find(bodyOf([{ type: 'text', text: 'the word tool_addition' }]))).toBeNull();
  expect(find(bodyOf([{ type: 'text', text: 'hi' }]).replace('hi', '\\u0068i'))).toBeNull();
});

test.each([
  ['blocks', bodyOf([addition, ...Array.from({ length: 50_001 }, () => ({ type: 'text' }))])],
  ['types', bodyOf([addition, ...Array.from({ length: 201 }, (_, index) => ({ type: `kind-${index}` }))])],
  ['escapes', bodyOf([addition]).replace('"model":"m"', `"model":"${'\\u0061'.repeat(10_001)}"`)],
])('assumes every tool if there are too many %s to count', (_what, text) => {
  const found = find(text);
  expect(found?.isComplete).toBe(false);
  expect(found && countAddedUses(found, 'code_interpreter', 10)).toBeGreaterThanOrEqual(10);
  expect(() => rejectAddedModels(Buffer.from(text))).toThrow('tools in the conversation: not allowed');
});
