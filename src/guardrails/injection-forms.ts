/** The forms in which a text is compared with phrases. Each step is one pass. */

/** Without width, of direction, variation selectors, tags: a word is the same with and without them. */
const ignorable = /\p{Default_Ignorable_Code_Point}+/gu;

/** Lower case, compatibility forms (full width, mathematical letters) resolved, no accents on Latin, Greek and Arabic letters, one space between words; lines stay. */
export function normalizeText(text: string): string {
  return text
    .replace(ignorable, '')
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFD')
    .replace(/(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}])\p{M}{1,64}/gu, '')
    .normalize('NFC')
    .replace(/[\u2018\u2019\u02bc`\u00b4]/g, "'")
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/([^\n])\n(?!\n)(?=[\p{L}\d])(?!(?:system|developer|human|assistant)\b)/gu, '$1 ');
}

/** Letters of other scripts, and digits and signs, that look like a Latin letter. */
const lookalikes: Readonly<Record<string, string>> = {
  а: 'a',
  ӓ: 'a',
  в: 'b',
  с: 'c',
  ԁ: 'd',
  е: 'e',
  ё: 'e',
  ҽ: 'e',
  ԍ: 'g',
  һ: 'h',
  н: 'h',
  і: 'i',
  ї: 'i',
  ј: 'j',
  к: 'k',
  ӏ: 'l',
  м: 'm',
  о: 'o',
  ӧ: 'o',
  р: 'p',
  ԛ: 'q',
  г: 'r',
  ѕ: 's',
  т: 't',
  у: 'y',
  ѵ: 'v',
  ԝ: 'w',
  х: 'x',
  α: 'a',
  β: 'b',
  ϲ: 'c',
  δ: 'd',
  ε: 'e',
  η: 'n',
  ι: 'i',
  κ: 'k',
  μ: 'u',
  ν: 'v',
  ο: 'o',
  ρ: 'p',
  σ: 'o',
  τ: 't',
  υ: 'u',
  χ: 'x',
  ω: 'w',
  ı: 'i',
  ȷ: 'j',
  ɑ: 'a',
  ɡ: 'g',
  ɩ: 'i',
  ɪ: 'i',
  ɴ: 'n',
  ʀ: 'r',
  ѐ: 'e',
  օ: 'o',
  ս: 'u',
  ո: 'n',
  հ: 'h',
  ց: 'g',
  ꜱ: 's',
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '@': 'a',
  $: 's',
  '!': 'i',
  '|': 'i',
};

/** A word that mixes Latin letters with what looks like them. A word in one script is what it is. */
const mixedWord = /[\p{L}\d@$!|]+/gu;

export function foldLookalikes(text: string): string {
  return text.replace(mixedWord, (word) => {
    const isMixed = /\p{Script=Latin}/u.test(word) && /[^a-z]/.test(word);
    return isMixed ? word.replace(/[^a-z]/gu, (letter) => lookalikes[letter] ?? letter) : word;
  });
}

/** Without marks of Markdown and tags of HTML around words, and without the signs that stand between words instead of a space. */
export function joinMarked(text: string): string {
  return text
    .replace(/<\/?[a-z][^<>]{0,100}>/g, '')
    .replace(/[*~`]{1,3}(?=\p{L})|(?<=\p{L})[*~`]{1,3}/gu, '')
    .replace(/(?<=\p{L})[._/+-]{1,3}(?=\p{L})/gu, ' ')
    .replace(/ {2,}/g, ' ');
}

/** Runs of at least eight single letters that were set apart by spaces or one kind of sign, without what set them apart. */
export function joinSpaced(text: string): string[] {
  return Array.from(text.matchAll(/(?<![\p{L}\d])(?:\p{L}[ ._*~-]{1,3}){7,}\p{L}(?![\p{L}\d])/gu), ([run]) =>
    run.replace(/[^\p{L}]/gu, ''),
  );
}
