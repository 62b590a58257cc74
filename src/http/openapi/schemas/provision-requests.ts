/**
 * Bodies of the provisioning routes: the schemas by which the rooms read them. Rows of the catalog are read by the configuration, which this
 * room may not know; a property test holds what is said of them here and its reading together.
 */
import { z } from 'zod';
import { keyInput, rotateInput } from '../../../keys/key-input.ts';
import { applicationInput } from '../../../projects/application-settings.ts';
import { projectInput } from '../../../projects/project-settings.ts';
import { repriceInput } from '../../../usage/reprice-input.ts';

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s]+\/\S+$/);

const placeAndAction = { place: z.enum(['input', 'output']), action: z.enum(['block', 'observe']) };
const rulesBody = z
  .strictObject({
    rules: z
      .array(
        z.union([
          z.strictObject({ class: z.enum(['credential', 'card_number', 'email', 'phone', 'iban']), ...placeAndAction }),
          z.strictObject({
            class: z.literal('expression'),
            ...placeAndAction,
            expression: z.string().min(1).max(500).describe('in the syntax of RE2; must not match the empty text'),
          }),
        ]),
      )
      .max(50),
  })
  .describe('All rules of the project.');

const catalogBody = z
  .strictObject({ models: z.record(modelId, z.record(z.string(), z.unknown()).nullable()) })
  .describe('Rows in the form of `models` of gateway.yaml, by `<provider>/<model>`; null takes an imported row away.');

const partial = 'What is left out stays as it is.';

export const provisionRequests = {
  project: projectInput.nullable().describe(partial),
  key: keyInput.describe('A new virtual key.'),
  rotate: rotateInput.nullable().describe('Without it the old key ends at once.'),
  application: applicationInput.nullable().describe(partial),
  rules: rulesBody,
  catalog: catalogBody,
  reprice: repriceInput.describe('The window, and the prices by which its calls are charged again.'),
};
