/**
 * True in `npm run test:exhaustive`. In that case, random tests and tables of combinations run all cases instead of a
 * sample.
 */
export const isExhaustive = process.env.GATEWAY_TEST_EXHAUSTIVE === '1';
