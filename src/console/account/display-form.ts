/** The form in which people choose the theme and the time zone of the console. */
import { themes } from '../../people/preferences.ts';
import { form, selectField, textField } from '../frame/components.ts';
import type { FieldErrors } from '../frame/field-errors.ts';
import type { Html } from '../frame/html.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { accountPath } from './account-path.ts';

export interface RejectedForm {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
}

const themeLabels = { light: 'Light', dark: 'Dark' } as const;

/** `rejected` is the submitted form if one of the page's forms was rejected. */
export function displayForm(context: ConsoleContext, rejected: RejectedForm | null): Html {
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
        hint: 'For the times and days that you see in the console. Without one, each project shows its own time zone of reports.',
        suggestions: ['UTC', ...Intl.supportedValuesOf('timeZone')],
      }),
    ],
    submit: 'Save',
  });
}

/** Empty fields become null. */
export function readDisplay(fields: URLSearchParams): { readonly theme: string | null; readonly time_zone: string | null } {
  return { theme: fields.get('theme') || null, time_zone: fields.get('time_zone')?.trim() || null };
}
