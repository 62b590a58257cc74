/**
 * Tests interrupted streams across dialects. Before the first delta, a different vendor responds. After it, the caller
 * gets an error.
 */
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from '@jest/globals';
import type { CallRow } from '../support/gateway.ts';
import { eventually, shareGateway } from '../support/gateway.ts';
import { type ReceivedText, readUntilCut } from '../support/read-until-cut.ts';
import { startTogether } from '../support/start-together.ts';
import type { Dialect } from './dialects-gateway.ts';
import { anthropicOf, lastCall, openaiOf, otherOf, paths, providersYaml, vendors, ways } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';

const hasty = { chat: 'hasty', messages: 'hasty-messages' } as const;
const early = ['break-before-first', 'error-before-first', 'stall-before-first', 'empty', 'garbage', 'fail-529'];
const late = ['break-after-3', 'error-after-3', 'stall-after-3', 'break-after-20', 'error-after-20', 'break-after-0', 'error-after-0'];
const contents = ['long-20', 'tools-parallel'];

/** We only use the provider with a short timeout for faults in which the vendor stops sending. */
const providerOf = (vendor: Dialect, fault: string): string => (fault.startsWith('stall') ? hasty : vendors)[vendor];

/** The second model of each tier belongs to a vendor of the other dialect. */
const tiers = (['chat', 'messages'] as const).flatMap((vendor) =>
  early.map((fault) => `  ${vendor}-${fault}: [${providerOf(vendor, fault)}/${fault}+long-20, ${vendors[otherOf(vendor)]}/echo]\n`),
);
const models = (['chat', 'messages'] as const).flatMap((vendor) =>
  late.flatMap((fault) => contents.map((content) => `${providerOf(vendor, fault)}/${fault}+${content}`)),
);
const prices = models.map((model) => `  "${model}": { input: 3, output: 15 }\n`);
const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${providersYaml(vendorUrl, deadUrl)}models:\n${prices.join('')}tiers:\n${tiers.join('')}`,
});
/** Breakers are per project. */
const lend = projectLender(lent, 'broken');

const asked = [{ role: 'user' as const, content: 'hi' }];
const bodyOf = (model: string) => ({ model, max_tokens: 100, stream: true, messages: asked });

interface Answered extends ReceivedText {
  readonly model: string;
  readonly answer: Response;
  readonly call: CallRow;
}

async function askFor(caller: Dialect, model: string): Promise<Answered> {
  const gateway = await lend();
  const answer = await gateway.call(paths[caller], bodyOf(model));
  return { model, answer, ...(await readUntilCut(answer)), call: await lastCall(gateway) };
}

const modelsOf = (vendor: Dialect, fault: string): string[] =>
  early.includes(fault) ? [`${vendor}-${fault}`] : contents.map((content) => `${providerOf(vendor, fault)}/${fault}+${content}`);

/**
 * Responses that we have to wait for, by caller and model. A silent vendor takes two seconds, and a broken connection
 * stays open for a moment.
 */
const slow = [...early.filter((fault) => fault.startsWith('stall')), ...late];
const slowAnswer = startTogether(
  ways.flatMap(({ caller, vendor }) => slow.flatMap((fault) => modelsOf(vendor, fault).map((model) => `${caller} ${model}`))),
  (key) => {
    const [caller, model = ''] = key.split(' ') as [Dialect, string];
    return askFor(caller, model);
  },
);

describe.each(ways)('a broken stream from a $vendor vendor to a $caller caller', ({ caller, vendor }) => {
  const answersOf = (fault: string): Promise<Answered[]> =>
    Promise.all(modelsOf(vendor, fault).map((model) => (slow.includes(fault) ? slowAnswer(`${caller} ${model}`) : askFor(caller, model))));

  it.each(early)('fails over to a vendor of the other dialect before the first delta (%s)', async (fault) => {
    for (const { answer, text, isCut, call } of await answersOf(fault)) {
      expect(isCut).toBe(false);
      expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, `${vendors[otherOf(vendor)]}/echo`]);
      expect(text).toContain('You ');
      expect(text).not.toMatch(/error|quick/);
      expect(text.trimEnd().endsWith(caller === 'chat' ? 'data: [DONE]' : 'data: {"type":"message_stop"}')).toBe(true);
      // A response that breaks off may be billed, and here no price is known. One that reports an error isn't billed.
      const hasBrokenOff = !['error-before-first', 'empty', 'garbage', 'fail-529'].includes(fault);
      expect(call).toMatchObject({
        outcome: 'ok',
        estimated: hasBrokenOff,
        attempts: [
          { n: 1, outcome: 'failed', cost: hasBrokenOff ? null : 0 },
          { n: 2, outcome: 'ok' },
        ],
      });
    }
  });

  it.each(late)('ends a broken stream in the caller’s dialect (%s)', async (fault) => {
    for (const { model, answer, text, isCut, call } of await answersOf(fault)) {
      expect(isCut).toBe(true);
      expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, model]);
      if (model.endsWith('long-20') && !fault.endsWith('-0')) expect(text).toMatch(/the .*quick .*brown /s);
      expect(text).not.toContain('[DONE]');
      expect(text).not.toContain('message_stop');
      expect(text).not.toMatch(/"finish_reason":"|"stop_reason":"/);
      expectTold(text, caller, vendor === caller && fault.startsWith('error'));
      expect(call).toMatchObject({
        model,
        outcome: 'interrupted',
        code: 'upstream_failed',
        estimated: true,
        attempts: [{ n: 1, status: 200, outcome: 'interrupted', cost: call.cost }],
      });
      expect(call.cost).toBeGreaterThan(0);
      if (!fault.endsWith('-0')) expect(call.tokens.output).toBeGreaterThan(1);
    }
  });
});

/** A messages caller gets one error event at the end. A chat caller gets none, unless a chat vendor sent one. */
function expectTold(text: string, caller: Dialect, isTheVendorsOwn: boolean): void {
  const events = text.split('\n\n').filter((event) => event !== '');
  if (caller === 'chat') {
    expect(events.filter((event) => event.includes('"error"'))).toHaveLength(isTheVendorsOwn ? 1 : 0);
    return;
  }
  expect(events.map((event) => event.startsWith('event: error\n')).lastIndexOf(true)).toBe(events.length - 1);
  expect(text.match(/^event: error$/gm)).toHaveLength(1);
  const data: unknown = JSON.parse(events.at(-1)?.replace(/^event: error\ndata: /, '') ?? '');
  const type = isTheVendorsOwn ? 'overloaded_error' : 'api_error';
  expect(data).toMatchObject({ type: 'error', error: { type, message: expect.stringMatching(/./) } });
}

it.each(ways)('charges a $caller caller only for what a $vendor vendor delivered before the caller left', async ({ caller, vendor }) => {
  const gateway = await lend();
  const answer = await gateway.call(paths[caller], bodyOf(`${vendors[vendor]}/pace-20+long-5000`));
  const reader = answer.body?.getReader();
  for (let pieces = 0; pieces < 5; pieces += 1) await reader?.read();
  await reader?.cancel();
  const call = await eventually(async () => {
    const found = await lastCall(gateway);
    expect(found).toMatchObject({ outcome: 'client_left', estimated: true, attempts: [{ n: 1, status: 200, outcome: 'client_left' }] });
    return found;
  });
  expect(call.tokens.output).toBeGreaterThan(1);
  expect(call.tokens.output).toBeLessThan(500);
});

describe('SDKs that read an interrupted stream of the other dialect', () => {
  it('makes the openai SDK throw after yielding the delivered text', async () => {
    const gateway = await lend();
    const stream = await openaiOf(gateway).chat.completions.create({ model: 'three/error-after-3+long-20', messages: asked, stream: true });
    let text = '';
    const reasons: unknown[] = [];
    const readAll = async (): Promise<void> => {
      for await (const { choices } of stream) {
        text += choices[0]?.delta.content ?? '';
        reasons.push(choices[0]?.finish_reason ?? null);
      }
    };
    await expect(readAll()).rejects.toThrow('terminated');
    expect([text, reasons.filter((reason) => reason !== null)]).toEqual(['the quick brown ', []]);
  });

  it("makes the anthropic SDK throw the vendor's message", async () => {
    const gateway = await lend();
    const stream = anthropicOf(gateway).messages.stream({ model: 'one/error-after-3+long-20', max_tokens: 100, messages: asked });
    let text = '';
    stream.on('text', (piece) => {
      text += piece;
    });
    const failure = await stream.finalMessage().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Anthropic.APIError);
    expect(failure).toMatchObject({
      error: { error: { type: 'api_error', message: 'The server had an error while answering.' } },
    });
    expect(text).toBe('the quick brown ');
  });
});
