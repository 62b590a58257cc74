/**
 * A labelled set to measure search with: statements as memories hold them, the same kind of statement for several people so that each has
 * near misses, a few dozen short conversations, and queries that share no terms with their answers. Generated from the tables below, the same in every run.
 */

const people = ['Anna Berg', 'Marco Rossi', 'Priya Nair', 'Tomás Silva', 'Yuki Tanaka', 'Fatima Haddad', 'Oliver Kemp', 'Ingrid Dahl'];

/**
 * A statement with a value for each person, and queries about it that avoid its terms.
 * @type {[string, string[], string[]][]}
 */
const statements = [
  [
    '{p} is allergic to {v}',
    ['peanuts', 'shellfish', 'gluten', 'soy', 'sesame', 'eggs', 'cow milk', 'strawberries'],
    ['Which food makes {p} ill?', 'What should we leave out when cooking for {p}?'],
  ],
  [
    '{p} lives in {v}',
    ['Oslo', 'Milan', 'Bangalore', 'Porto', 'Kyoto', 'Beirut', 'Leeds', 'Bergen'],
    ['Where is the home of {p}?', 'In which city can I visit {p}?'],
  ],
  [
    '{p} prefers to travel by {v}',
    ['train', 'plane', 'night bus', 'bicycle', 'bullet train', 'car', 'ferry', 'motorcycle'],
    ['How does {p} like to get around?', 'Which means of transport should I book for {p}?'],
  ],
  [
    '{p} works as a {v}',
    ['nurse', 'architect', 'data engineer', 'baker', 'translator', 'lawyer', 'carpenter', 'biologist'],
    ['What is the job of {p}?', 'How does {p} earn a living?'],
  ],
  [
    '{p} plays the {v} in the evenings',
    ['violin', 'drums', 'sitar', 'guitar', 'piano', 'oud', 'trumpet', 'accordion'],
    ['Which instrument does {p} practise?', 'What music does {p} make after work?'],
  ],
  [
    '{p} has a {v} at home',
    ['grey cat', 'parrot', 'golden retriever', 'tortoise', 'goldfish', 'rabbit', 'hamster', 'pony'],
    ['What pet does {p} keep?', 'Which animal lives with {p}?'],
  ],
  [
    '{p} was born in {v}',
    ['1984', '1990', '1977', '1995', '1988', '1969', '2001', '1973'],
    ['How old is {p}?', 'What year did {p} come into the world?'],
  ],
  [
    'The doctor told {p} to take {v}',
    ['vitamin D', 'iron tablets', 'insulin', 'aspirin', 'antibiotics', 'thyroid pills', 'magnesium', 'eye drops'],
    ['Which medicine is {p} on?', 'What has {p} been prescribed?'],
  ],
  [
    '{p} supports the football club {v}',
    ['Vålerenga', 'Inter', 'Chelsea', 'Benfica', 'Kashima', 'Ansar', 'Leeds United', 'Brann'],
    ['Which team does {p} cheer for?', 'Whose matches does {p} watch?'],
  ],
  [
    '{p} wants answers written in {v}',
    ['short bullet points', 'full sentences', 'tables', 'simple language', 'formal letters', 'two paragraphs', 'rhymes', 'numbered steps'],
    ['In which style should I reply to {p}?', 'How must texts for {p} be laid out?'],
  ],
  [
    'The wedding of {p} is in {v}',
    ['June', 'September', 'December', 'August', 'April', 'October', 'May', 'February'],
    ['When does {p} get married?', 'In which month is the ceremony of {p}?'],
  ],
  [
    '{p} is learning {v}',
    ['Portuguese', 'German', 'Arabic', 'Finnish', 'French', 'Korean', 'Welsh', 'Italian'],
    ['Which language does {p} study?', 'What is {p} taking lessons in?'],
  ],
  [
    '{p} drinks {v} in the morning',
    ['green tea', 'espresso', 'masala chai', 'orange juice', 'matcha', 'mint tea', 'black coffee', 'hot chocolate'],
    ['What is the favourite breakfast beverage of {p}?', 'What should I pour for {p} after waking up?'],
  ],
  [
    '{p} is afraid of {v}',
    ['heights', 'spiders', 'deep water', 'dogs', 'thunder', 'flying', 'needles', 'the dark'],
    ['What frightens {p}?', 'Which phobia does {p} have?'],
  ],
  [
    '{p} collects {v}',
    ['stamps', 'vinyl records', 'coins', 'postcards', 'fountain pens', 'sea shells', 'model trains', 'old maps'],
    ['What does {p} gather as a hobby?', 'Which things fill the shelves of {p}?'],
  ],
  [
    '{p} uses {v} for writing code',
    ['Vim', 'Emacs', 'PyCharm', 'Notepad', 'Xcode', 'Eclipse', 'Sublime Text', 'Zed'],
    ['Which editor is installed at {p}?', 'With which program does {p} develop software?'],
  ],
  [
    '{p} pays the rent by {v}',
    ['bank transfer', 'cheque', 'cash', 'credit card', 'direct debit', 'money order', 'mobile wallet', 'standing order'],
    ['How does {p} settle the bill for the flat?', 'By which method does the landlord of {p} get money?'],
  ],
  [
    '{p} drives a {v}',
    ['red Volvo', 'Fiat Panda', 'Tata Nexon', 'white Seat', 'Honda Civic', 'silver Toyota', 'Land Rover', 'Tesla'],
    ['What car does {p} own?', 'Which vehicle is parked in front of the house of {p}?'],
  ],
  [
    '{p} decided to {v}',
    [
      'quit smoking',
      'sell the boat',
      'adopt a child',
      'move abroad',
      'run a marathon',
      'open a bakery',
      'study law',
      'become a vegetarian',
    ],
    ['Which big change in life did {p} settle on?', 'What has {p} made up the mind about?'],
  ],
  [
    'The sister of {p} is called {v}',
    ['Karin', 'Giulia', 'Meera', 'Beatriz', 'Hana', 'Leila', 'Charlotte', 'Solveig'],
    ['What is the name of the sibling of {p}?', 'Who is the closest female relative of {p}?'],
  ],
  [
    '{p} goes to {v} every summer',
    ['Iceland', 'Sardinia', 'Goa', 'the Azores', 'Hokkaido', 'Cyprus', 'Cornwall', 'Lofoten'],
    ['Where does {p} spend the holidays?', 'What is the usual vacation spot of {p}?'],
  ],
  [
    '{p} cannot attend meetings on {v}',
    ['Monday', 'Tuesday morning', 'Friday', 'Wednesday', 'Thursday afternoon', 'Sunday', 'the first of the month', 'Saturday'],
    ['When is {p} unavailable for calls?', 'Which day is bad for an appointment with {p}?'],
  ],
];

const projects = ['Falcon', 'Borealis', 'Juniper', 'Quartz', 'Meridian', 'Tundra', 'Lantern', 'Harbour'];
/**
 * Names and numbers: what terms find and vectors do not.
 * @type {[string, string[], string[]][]}
 */
const records = [
  [
    'Ticket {v} of project {p} is about slow exports',
    ['FX-2231', 'BO-118', 'JU-9004', 'QZ-77', 'ME-4512', 'TU-301', 'LA-66', 'HA-8120'],
    ['What is {v} about?', 'status of ticket {v}'],
  ],
  [
    'The database of project {p} runs on host {v}',
    ['db-frost-03', 'db-amber-11', 'db-cedar-07', 'db-opal-02', 'db-mango-19', 'db-slate-05', 'db-coral-13', 'db-ivory-08'],
    ['Which project owns {v}?', 'Where is the storage of {p} hosted?'],
  ],
  [
    'Error {v} in project {p} means that the certificate has expired',
    ['E4107', 'E9920', 'E3381', 'E7754', 'E1026', 'E6649', 'E8815', 'E2590'],
    ['What does {v} mean?', 'Why does {p} report an outdated TLS identity?'],
  ],
  [
    'Releases of project {p} are made by {v}',
    ['Nadia', 'Sven', 'Chioma', 'Pavel', 'Lucía', 'Hamid', 'Grace', 'Bjorn'],
    ['Who ships new versions of {p}?', 'Which deployments does {v} look after?'],
  ],
];

/** @type {[string, string, string][]} */
const topics = [
  [
    'a leaking kitchen tap',
    'The washer is worn out, so close the valve below the sink and put in a new rubber ring.',
    'How do I stop water dripping over the dishes?',
  ],
  [
    'sourdough that does not rise',
    'The starter was too cold; keep the jar near the oven and feed it twice.',
    'Why is my bread so flat and dense?',
  ],
  [
    'a slow SQL report',
    'The join had no index on the order date, after adding it the query took a second.',
    'What made the database statement faster?',
  ],
  [
    'a school play costume',
    'You can cut the wings from cardboard and paint the feathers with silver glitter.',
    'Ideas for dressing a child as a bird on stage',
  ],
  [
    'planting tomatoes',
    'Wait for the last frost, dig deep, and tie the stems to bamboo sticks.',
    'When may vegetables go out into the garden?',
  ],
  [
    'a dispute with the landlord',
    'Write a letter with photographs of the mould and set a deadline of two weeks.',
    'How to complain about fungus on the bedroom walls',
  ],
  [
    'choosing a running shoe',
    'With flat feet a stable sole and a wide toe box prevent knee pain.',
    'Which trainers are good for somebody with low arches?',
  ],
  [
    'a broken laptop hinge',
    'The screws had stripped their thread, longer ones with thread lock held the lid.',
    'The screen of my notebook computer is loose',
  ],
  [
    'an apology to a colleague',
    'Say what you did, that you regret interrupting, and what you will do differently.',
    'Words for making peace with somebody at work',
  ],
  [
    'hiking in the rain',
    'Pack a poncho, spare socks in a plastic bag and a thermos of soup.',
    'What to bring on a wet walk in the mountains',
  ],
  [
    'filing a tax return',
    'Commuting costs and the home office can be deducted, keep the receipts for six years.',
    'How can I pay less to the revenue office?',
  ],
  [
    'a crying baby at night',
    'A dim light, a lullaby and the same order every evening help the infant to settle.',
    'My newborn does not sleep',
  ],
];

/** `{ memories: [{ id, text, kind }], queries: [{ text, answers }] }`; a conversation is a memory of kind `conversation`. */
export function makeRetrievalSet() {
  /** @type {{ id: string, text: string, kind: string }[]} */
  const memories = [];
  /** @type {{ text: string, answers: string[] }[]} */
  const queries = [];
  /** @param {[string, string[], string[]][]} tables @param {string[]} names @param {string} prefix */
  const add = (tables, names, prefix) => {
    for (const [place, [statement, values, questions]] of tables.entries()) {
      for (const [index, name] of names.entries()) {
        /** @param {string} text */
        const fill = (text) => text.replaceAll('{p}', name).replaceAll('{v}', values[index] ?? '');
        const id = `${prefix}-${place}-${index}`;
        memories.push({ id, text: fill(statement), kind: 'fact' });
        // Half of the statements are asked for, in turn one way and the other.
        if ((place + index) % 2 === 0) queries.push({ text: fill(questions[(index >> 1) % questions.length] ?? ''), answers: [id] });
      }
    }
  };
  add(statements, people, 'person');
  add(records, projects, 'record');
  for (const [index, [title, advice, question]] of topics.entries()) {
    for (const [form, open] of [
      `I need help with ${title}.`,
      `Somebody asked me about ${title}, what should I say?`,
      `More about ${title}, please.`,
    ].entries()) {
      const id = `talk-${index}-${form}`;
      memories.push({ id, kind: 'conversation', text: `user: ${open}\nassistant: ${advice} Tell me if you want more detail.` });
    }
    queries.push({ text: question, answers: [0, 1, 2].map((form) => `talk-${index}-${form}`) });
  }
  for (const name of people) {
    for (const [place, subject] of ['food', 'sport', 'family', 'money'].entries())
      memories.push({
        id: `noise-${name}-${place}`,
        kind: 'fact',
        text: `${name} asked for a reminder about ${subject} and had no further wishes`,
      });
  }
  // The same query as hurried users type it.
  const hurried = queries.filter((_, index) => index % 2 === 0).map(({ text, answers }) => ({ text: hurry(text), answers }));
  return { memories, queries: [...queries, ...hurried] };
}

/** @param {string} text */
function hurry(text) {
  const dropped = new Set([
    'the',
    'a',
    'an',
    'is',
    'are',
    'does',
    'do',
    'should',
    'i',
    'of',
    'to',
    'has',
    'have',
    'been',
    'did',
    'in',
    'must',
    'for',
    'by',
    'with',
    'can',
    'on',
    'be',
  ]);
  return text
    .replaceAll('?', '')
    .split(' ')
    .filter((word) => !dropped.has(word.toLowerCase()))
    .join(' ')
    .toLowerCase();
}
