import { expect, test } from '@jest/globals';
import type { Request, Response } from 'express';
import { requireToken } from '../../src/http/admin.ts';

test('the admin API accepts only the current admin tokens', () => {
  const check = requireToken(() => ['first-token', 'second-token']);
  /** Returns true if the request may go on. */
  const ask = (authorization?: string): boolean => {
    let isAccepted = false;
    check({ headers: { authorization } } as Request, {} as Response, () => {
      isAccepted = true;
    });
    return isAccepted;
  };
  expect([ask('Bearer first-token'), ask('Bearer second-token')]).toEqual([true, true]);
  expect(() => ask('Bearer other-token')).toThrow(expect.objectContaining({ code: 'invalid_key' }));
  expect(() => ask('Bearer first-toke')).toThrow(expect.objectContaining({ code: 'invalid_key' }));
  expect(() => ask()).toThrow(expect.objectContaining({ code: 'missing_key' }));
});
