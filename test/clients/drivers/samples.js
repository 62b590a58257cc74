/** What the tools of the cases return. */
export const toolResults = { get_weather: 'sunny', get_time: 'noon' };
