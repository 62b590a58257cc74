/** Tests how we find the times that a query mentions. */
import { expect, test } from '@jest/globals';
import { findNamedTimes } from '../../../src/memory/search/named-times.ts';

/** A Wednesday */
const now = new Date('2026-05-20T15:00:00Z');

/**
 * Returns the first and the last day of the newest period. The days in which people still report it aren't included.
 */
function newest(query: string): string {
  const [span] = findNamedTimes(query, now);
  if (!span) return '';
  const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  return `${dayOf(span.since.getTime())} ${dayOf(span.until.getTime() - 8 * 86_400_000)}`;
}

test.each([
  ['What happened on 3 June, 2023?', '2023-06-03 2023-06-03'],
  ['What happened on the 3rd of June 2023?', '2023-06-03 2023-06-03'],
  ['the meeting of May 25, 2023', '2023-05-25 2023-05-25'],
  ['deployed 2026-02-28', '2026-02-28 2026-02-28'],
  ['the report for 2026-02', '2026-02-01 2026-02-28'],
  ['What did Ann do in December 2023?', '2023-12-01 2023-12-31'],
  ['a trip in August', '2026-08-01 2026-08-31'],
  ['what we did this June', '2026-06-01 2026-06-30'],
  ['the plans of summer 2023', '2023-01-01 2023-12-31'],
  ['in early Sept. 2025', '2025-09-01 2025-09-30'],
  ['How often was Ann at the beach in 2023?', '2023-01-01 2023-12-31'],
  ['What did I say yesterday?', '2026-05-19 2026-05-19'],
  ['What should I cook today, and this week?', ''],
  ['LAST WEEK', '2026-05-11 2026-05-17'],
  ['last month', '2026-04-01 2026-04-30'],
  ['two months ago', '2026-03-01 2026-03-31'],
  ['a year ago', '2025-01-01 2025-12-31'],
  ['on 29 February 2023', ''],
  ['2026-13-01', ''],
  ['May I march to version 2023?', ''],
  ['I think this may help, and winter may be cold', ''],
  ['may 2 people share a key?', ''],
  ['May 2 people share a key?', ''],
  ['Which items 1 may delete', ''],
  ['They march 3 miles, and the 2nd may be slow', ''],
  ['What did Ann do on may 7 at home?', '2026-05-07 2026-05-07'],
  ['the May 7 meeting', '2026-05-07 2026-05-07'],
  ['7 May meeting', '2026-05-07 2026-05-07'],
  ['May 7: what did Ann say?', '2026-05-07 2026-05-07'],
  ['May 5 is whose birthday?', '2026-05-05 2026-05-05'],
  ['what did Ann do between may 3 and now', '2026-05-03 2026-05-03'],
  ['standup march 3', '2026-03-03 2026-03-03'],
  ['What did I say about the boat today?', '2026-05-20 2026-05-20'],
  ['what happened today', '2026-05-20 2026-05-20'],
  ['order 12023-05-06-7, form 2024', ''],
  ['from 1 May 2026, 2 May 2026, 3 May 2026 and 4 May 2026', ''],
  ['Where does Ann live?', ''],
])('finds the dates in the query %s: %s', (query, span) => {
  expect(newest(query)).toBe(span);
});

test('considers the last ten years if a query names a month without a year', () => {
  expect(findNamedTimes('in June', now).map(({ since }) => since.getUTCFullYear())).toEqual([
    2026, 2025, 2024, 2023, 2022, 2021, 2020, 2019, 2018, 2017,
  ]);
});
