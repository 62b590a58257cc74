/** Response schemas of the inference routes, whose bodies are the vendor's. */
import { z } from 'zod';

export const inferenceResponses = {
  ChatCompletion: z.looseObject({ choices: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  Message: z.looseObject({ content: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  Response: z.looseObject({ output: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  VendorAnswer: z.looseObject({}).describe('The vendor’s answer, unchanged.'),
};
