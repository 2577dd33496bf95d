/* Parses decimal numbers as in the C locale, whatever locale the host program has set. */
#ifndef PL_DECIMAL_H
#define PL_DECIMAL_H

/* Otherwise like strtod(3) and strtof(3). */
double pl_strtod(const char *text, char **end);
float pl_strtof(const char *text, char **end);

#endif
