#include "check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/valgrind.h>

static jmp_buf end_of_test;
static const char *only = "";
static int passed, failed;

void check_failed(const char *file, int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("  %s:%d: ", file, line);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  longjmp(end_of_test, 1);
}

void check_equal(const char *file, int line, const char *what, intmax_t actual, intmax_t expected) {
  if (actual != expected) {
    check_failed(file, line, "%s is %" PRIdMAX ", expected %" PRIdMAX, what, actual, expected);
  }
}

void check_begins(const char *file, int line, const char *text, const char *beginning) {
  if (strncmp(text, beginning, strlen(beginning)) != 0) {
    check_failed(file, line, "\"%s\" does not begin with \"%s\"", text, beginning);
  }
}

void check_run(const char *name, void (*test)(void)) {
  if (strstr(name, only) == NULL) {
    return;
  }
  bool ended_well = setjmp(end_of_test) == 0;
  if (ended_well) {
    test();
    passed++;
  } else {
    failed++;
  }
  printf("%s %s\n", ended_well ? "ok    " : "FAILED", name);
  fflush(stdout);
}

void check_only(const char *part) { only = part; }

int check_summary(void) {
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool check_quick(void) { return getenv("QUICK") != NULL; }

bool check_valgrind(void) { return RUNNING_ON_VALGRIND != 0; }

double check_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
