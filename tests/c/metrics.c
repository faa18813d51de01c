#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const named_policy counted = {"counted in C", "3/h burst 3"};
static const named_policy forked = {"forked in C", "100/h burst 100"};

/* The text, to be freed. */
static char *text_of_metrics(void) {
  size_t length = rl_metrics(NULL, 0);
  CHECK(length > 1);
  /* Other threads may count in between, so there is room for more. */
  char *text = malloc(length + 4096);
  CHECK(rl_metrics(text, length + 4096) <= length + 4096);
  return text;
}

/* The number on the line that begins like this; -1 where there is none. */
static double value_of(const char *beginning) {
  char *text = text_of_metrics();
  const char *line = strstr(text, beginning);
  double value = line == NULL ? -1 : strtod(line + strlen(beginning), NULL);
  free(text);
  return value;
}

static void the_counts_are_what_the_caller_saw(void) {
  rl_limiter *limiter = limiter_by("memory:?max_keys=501", 1, &counted, NULL);
  rl_decision decision;
  for (int i = 0; i < 5; i++) {
    CHECK_EQUAL(allow(limiter, "a client", 1, &decision), RL_OK);
  }
  CHECK_EQUAL(peek(limiter, "a client", 1, &decision), RL_OK);
  CHECK_EQUAL(value_of("rate_limiter_allowed_total{policy=\"counted in C\",source=\"store\"} "), 3);
  CHECK_EQUAL(value_of("rate_limiter_denied_total{policy=\"counted in C\",source=\"store\"} "), 2);
  char *text = text_of_metrics();
  CHECK(strstr(text, "a client") == NULL);
  free(text);
  rl_limiter_free(limiter);
}

static void a_buffer_too_short_for_the_text_stays_as_it_is(void) {
  char buffer[8] = "untouch";
  CHECK(rl_metrics(buffer, sizeof buffer) > sizeof buffer);
  CHECK(strcmp(buffer, "untouch") == 0);
}

static void processes_that_are_forked_count_together(void) {
  rl_limiter *limiter = limiter_by("memory:?max_keys=502", 1, &forked, NULL);
  rl_decision decision;
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      for (int j = 0; j < 5; j++) {
        allow(limiter, "key", 1, &decision);
      }
      /* The child's own copy, which Valgrind would miss. */
      rl_limiter_free(limiter);
      _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK_EQUAL(value_of("rate_limiter_allowed_total{policy=\"forked in C\",source=\"store\"} "), 15);
  rl_limiter_free(limiter);
}

static void a_store_says_how_full_it_is(void) {
  rl_store *store;
  rl_store_info info;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=503", &store), RL_OK);
  rl_limiter *limiter = limiter_on("memory:?max_keys=503", 5, 1, 3600, NULL);
  rl_decision decision;
  for (int i = 0; i < 20; i++) {
    char key[16];
    snprintf(key, sizeof key, "key %d", i);
    CHECK_EQUAL(allow(limiter, key, 1, &decision), RL_OK);
  }
  CHECK_EQUAL(rl_store_get_info(store, &info), RL_OK);
  CHECK_EQUAL(info.used, 20);
  CHECK_EQUAL(info.evicted, 0);
  CHECK(info.slots >= 503 && info.bytes > 0);
  CHECK_EQUAL(rl_store_get_info(NULL, &info), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_store_get_info(store, NULL), RL_ERR_INVALID_ARGUMENT);
  rl_limiter_free(limiter);
  rl_store_free(store);
  CHECK_EQUAL(rl_store_open("redis://127.0.0.1:1", &store), RL_OK);
  CHECK_EQUAL(rl_store_get_info(store, &info), RL_OK);
  CHECK_EQUAL(info.slots, 0);
  rl_store_free(store);
}

void metrics(void) {
  TEST(the_counts_are_what_the_caller_saw);
  TEST(a_buffer_too_short_for_the_text_stays_as_it_is);
  TEST(processes_that_are_forked_count_together);
  TEST(a_store_says_how_full_it_is);
}
