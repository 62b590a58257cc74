/**
 * Request schemas of the provisioning routes. We use them to parse bodies, except for catalog rows, which are parsed by
 * the configuration and can't be imported here. A property test makes sure that both agree.
 */
import { z } from 'zod';
import { keyChangeInput, keyInput, rotateInput, windowsNeedCeilings } from '../../../keys/key-input.ts';
import { endedStates } from '../../../memory/learning/replay.ts';
import { applicationInput } from '../../../projects/application-settings.ts';
import { projectInput } from '../../../projects/project-settings.ts';
import { repriceInput } from '../../../usage/reprice-input.ts';

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s]+\/\S+$/);

const placeAndAction = { place: z.enum(['input', 'output']), action: z.enum(['block', 'observe']) };
const partial = 'Omitted members keep their values.';

export const provisionRequests = {
  ProjectBody: projectInput.nullable().describe(partial),
  KeyBody: keyInput.meta({ description: 'A new virtual key.', allOf: windowsNeedCeilings }),
  KeyChangeBody: keyChangeInput.describe(partial),
  RotateBody: rotateInput.nullable().describe('Without a body, the old key is revoked immediately.'),
  ApplicationBody: applicationInput.nullable().describe(partial),
  BatchReplayBody: z
    .strictObject({ project: z.string().describe('slug of the project'), state: z.enum(endedStates) })
    .describe('Replays all batches of the project in this state.'),
  MemoryFile: z.string().describe('Lines of JSON in the format that docs/memory-export.md describes. The file can have any length.'),
  RulesBody: z
    .strictObject({
      rules: z
        .array(
          z.union([
            z.strictObject({ class: z.enum(['credential', 'card_number', 'email', 'phone', 'iban']), ...placeAndAction }),
            z.strictObject({
              class: z.literal('expression'),
              ...placeAndAction,
              expression: z.string().min(1).max(500).describe('a regular expression in RE2 syntax, which must not match the empty string'),
            }),
          ]),
        )
        .max(50),
    })
    .describe('All rules of the project.'),
  CatalogBody: z
    .strictObject({ models: z.record(modelId, z.record(z.string(), z.unknown()).nullable()) })
    .describe('Rows in the format of `models` in gateway.yaml, by `<provider>/<model>`. A null removes an imported row.'),
  RepriceBody: repriceInput.describe('The time window, and the prices with which its calls are recalculated.'),
};
