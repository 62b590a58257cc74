/** Terms for days, weekdays, months and spans of time in the languages of `locales`, as ICU has them. */

export type TimeUnit = 'day' | 'week' | 'month' | 'year';

export interface TimeTerms {
  /** 0 is Sunday. */
  readonly weekdays: ReadonlySet<number>;
  /** 1 to 12. */
  readonly months: ReadonlySet<number>;
  /** `tomorrow` and `days` are of the unit day, `next week` and `weekend` of the unit week. */
  readonly units: ReadonlySet<TimeUnit>;
}

/** A language is one entry. */
const locales = ['en', 'de', 'fr', 'es', 'pt', 'it', 'nl', 'sv', 'pl', 'ru', 'tr', 'ar', 'zh', 'ja', 'ko'];
const units: readonly TimeUnit[] = ['day', 'week', 'month', 'year'];

/** What ICU does not have. */
const furtherTerms: Readonly<Record<TimeUnit, readonly string[]>> = {
  day: ['tonight', 'last night', 'ce soir', 'esta noche', 'anoche', '今晚', '昨晚', '今夜', '昨夜', 'あした', 'きのう', 'غدا', 'الليلة'],
  week: ['weekend', 'Wochenende', 'week-end', 'fin de semana', 'fim de semana', '周末', '週末', '下週', '上週', 'عطلة نهاية الأسبوع'],
  month: ['下個月', '上個月'],
  year: [],
};

type Meaning = { readonly kind: 'weekday' | 'month'; readonly number: number } | { readonly kind: 'unit'; readonly unit: TimeUnit };

/** In lower case; built with the first use, which takes some milliseconds. */
let meanings: ReadonlyMap<string, readonly Meaning[]> | null = null;
let pattern: RegExp | null = null;

export function findTerms(text: string): TimeTerms {
  const found = { weekdays: new Set<number>(), months: new Set<number>(), units: new Set<TimeUnit>() };
  for (const [term] of text.toLowerCase().matchAll(getPattern()))
    for (const meaning of getMeanings().get(term) ?? [])
      if (meaning.kind === 'unit') found.units.add(meaning.unit);
      else found[meaning.kind === 'month' ? 'months' : 'weekdays'].add(meaning.number);
  return found;
}

function getPattern(): RegExp {
  if (pattern === null) {
    const terms = [...getMeanings().keys()].sort((left, right) => right.length - left.length);
    // Inflected forms continue a term, which short ones must not; scripts without cases attach particles, or have no spaces.
    const forms = terms.map((term) =>
      /^[^\p{Ll}]/u.test(term) ? term : term.length < 5 ? `(?<!\\p{L})${term}(?!\\p{L})` : `(?<!\\p{L})${term}`,
    );
    pattern = new RegExp(forms.join('|'), 'gu');
  }
  return pattern;
}

function getMeanings(): ReadonlyMap<string, readonly Meaning[]> {
  if (meanings === null) {
    const map = new Map<string, Meaning[]>();
    const add = (term: string, meaning: Meaning): void => {
      const folded = stem(term.toLowerCase());
      if (folded !== '') map.set(folded, [...(map.get(folded) ?? []), meaning]);
    };
    for (const locale of locales) addTermsOf(locale, add);
    for (const unit of units) for (const term of furtherTerms[unit]) add(term, { kind: 'unit', unit });
    meanings = map;
  }
  return meanings;
}

/** Without the last letter of long terms, which languages inflect. */
function stem(term: string): string {
  return /^\p{Ll}{6,}$/u.test(term) ? term.slice(0, -1) : term;
}

function addTermsOf(locale: string, add: (term: string, meaning: Meaning) => void): void {
  for (const style of locale === 'zh' ? (['long', 'short'] as const) : (['long'] as const)) {
    const weekdays = new Intl.DateTimeFormat(locale, { weekday: style, timeZone: 'UTC' });
    // 1970-01-04 was a Sunday.
    for (let number = 0; number < 7; number += 1) add(weekdays.format(Date.UTC(1970, 0, 4 + number)), { kind: 'weekday', number });
  }
  const months = new Intl.DateTimeFormat(locale, { month: 'long', timeZone: 'UTC' });
  for (let number = 1; number <= 12; number += 1) {
    const term = months.format(Date.UTC(1970, number - 1, 1));
    // `1月` is found as a number.
    if (!/[\p{N}\p{Script=Han}]/u.test(term)) add(term, { kind: 'month', number });
  }
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  for (const unit of units) {
    const counted = new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' });
    for (const count of [1, 2, 5]) {
      const name = counted.formatToParts(count).find(({ type }) => type === 'unit')?.value;
      if (name !== undefined) add(name.trim(), { kind: 'unit', unit });
    }
    for (const step of [-2, -1, 0, 1, 2]) {
      const parts = relative.formatToParts(step, unit);
      if (parts.every(({ type }) => type === 'literal')) add(relative.format(step, unit), { kind: 'unit', unit });
    }
  }
}
