/** The form for choosing a colour theme and a time zone for the console. */
import { themes } from '../../people/preferences.ts';
import { form, selectField, textField } from '../frame/components.ts';
import type { SubmittedForm } from '../frame/field-errors.ts';
import type { Html } from '../frame/html.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { accountPath } from './account-path.ts';

const themeLabels = { light: 'Light', dark: 'Dark' } as const;

/** `rejected` contains the person's input if a form of the page was just submitted and rejected. */
export function displayForm(context: ConsoleContext, rejected: SubmittedForm | null): Html {
  const { theme, timeZone } = context.session.preferences;
  const own = rejected?.form.has('time_zone') ? rejected : null;
  return form({
    context,
    action: `${accountPath}/display`,
    fields: [
      selectField({
        ...{ name: 'theme', label: 'Theme', required: true, value: own ? own.form.get('theme') : theme },
        options: [{ value: '', label: 'As the system' }, ...themes.map((value) => ({ value, label: themeLabels[value] }))],
      }),
      textField({
        ...{ name: 'time_zone', label: 'Time zone', value: own ? own.form.get('time_zone') : timeZone, error: own?.errors.of('time_zone') },
        ...{ placeholder: 'As the project', maxLength: 64, autocomplete: 'off' },
        hint: 'For times and dates in the console. If you don’t choose one, each project uses its own reporting time zone.',
        suggestions: ['UTC', ...Intl.supportedValuesOf('timeZone')],
      }),
    ],
    submit: 'Save',
  });
}

export function readDisplay(fields: URLSearchParams): { readonly theme: string | null; readonly time_zone: string | null } {
  return { theme: fields.get('theme') || null, time_zone: fields.get('time_zone')?.trim() || null };
}
