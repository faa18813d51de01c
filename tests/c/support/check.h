/* Assertions and a runner: a test is a function, the first false CHECK ends it. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

/* Ends the running test as failed unless the condition holds. Only on the main thread. */
#define CHECK(condition) \
  ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, "%s does not hold", #condition))

/* Two integers are equal. */
#define CHECK_EQUAL(actual, expected) \
  check_equal(__FILE__, __LINE__, #actual, (intmax_t)(actual), (intmax_t)(expected))

/* A text begins with another. */
#define CHECK_BEGINS(text, beginning) check_begins(__FILE__, __LINE__, text, beginning)

/* Runs one test, under the name of its function. */
#define TEST(function) check_run(#function, function)

void check_failed(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void check_equal(const char *file, int line, const char *what, intmax_t actual, intmax_t expected);
void check_begins(const char *file, int line, const char *text, const char *beginning);
void check_run(const char *name, void (*test)(void));

/* Runs only the tests whose names hold this text. */
void check_only(const char *part);

/* Prints `N passed, N failed` and returns how main should end. */
int check_summary(void);

/* Whether long loops are to be cut short, as under Valgrind: the variable QUICK is set. */
bool check_quick(void);

/* Whether Valgrind runs this program, many times slower than the machine would. */
bool check_valgrind(void);

/* Seconds on a clock that only goes forward. */
double check_seconds(void);

#endif
