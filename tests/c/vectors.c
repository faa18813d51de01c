#include "tests.h"

#include "support/check.h"
#include "support/json.h"
#include "support/limiter.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The instant at which every case begins. */
static const uint64_t EPOCH_US = UINT64_C(1700000000000000);

static const char *folder;

static rl_status token_bucket(const json *policy, rl_policy **out) {
  return rl_policy_token_bucket((uint64_t)json_integer(policy, "capacity"), json_double(policy, "refill_rate"),
                                json_double(policy, "refill_interval"), json_bool(policy, "continuous"), out);
}

/* How each algorithm of the vectors is made. */
static const struct {
  const char *name;
  rl_status (*make)(const json *policy, rl_policy **out);
} algorithms[] = {
    {"token_bucket", token_bucket},
};

static rl_limiter *limiter_of(const json *numbers, rl_store *store) {
  rl_policy *policy = NULL;
  rl_limiter *limiter = NULL;
  const char *name = json_string(numbers, "algorithm");
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    if (strcmp(algorithms[i].name, name) == 0) {
      CHECK_EQUAL(algorithms[i].make(numbers, &policy), RL_OK);
    }
  }
  if (policy == NULL) {
    check_failed(__FILE__, __LINE__, "the algorithm %s is not known", name);
  }
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &limiter), RL_OK);
  rl_policy_free(policy);
  return limiter;
}

/* What a step must answer; a wait of null is one that never ends. */
static bool is_expected(const rl_decision *seen, const json *expect) {
  bool never = json_get(expect, "retry_after_us")->kind == JSON_NULL;
  uint64_t retry_after_us = never ? RL_NEVER : (uint64_t)json_integer(expect, "retry_after_us");
  return seen->allowed == json_bool(expect, "allowed") && seen->limit == (uint64_t)json_integer(expect, "limit") &&
         seen->remaining == (uint64_t)json_integer(expect, "remaining") && seen->retry_after_us == retry_after_us &&
         seen->reset_after_us == (uint64_t)json_integer(expect, "reset_after_us") && seen->delay_us == 0 &&
         seen->policy == 0 && seen->source == RL_SOURCE_STORE && !seen->degraded;
}

static rl_status ask(rl_limiter *limiter, const char *key, const json *step, rl_decision *out) {
  const uint8_t *bytes = (const uint8_t *)key;
  uint64_t now_us = EPOCH_US + (uint64_t)json_integer(step, "at_us");
  const char *verb = json_string(step, "verb");
  if (strcmp(verb, "allow") == 0) {
    return rl_allow_at(limiter, bytes, strlen(key), json_integer(step, "cost"), now_us, out);
  }
  if (strcmp(verb, "peek") == 0) {
    return rl_peek_at(limiter, bytes, strlen(key), json_integer(step, "cost"), now_us, out);
  }
  if (strcmp(verb, "reset") == 0) {
    return rl_reset(limiter, bytes, strlen(key));
  }
  check_failed(__FILE__, __LINE__, "the verb %s is not known", verb);
}

static void run_case(const json *test, rl_store *store) {
  const char *name = json_string(test, "name");
  rl_limiter *limiter = limiter_of(json_get(test, "policy"), store);
  int number = 0;
  for (const json *step = json_get(test, "steps")->first; step != NULL; step = step->next, number++) {
    if (json_find(step, "policy") != NULL) {
      rl_limiter_free(limiter);
      limiter = limiter_of(json_get(step, "policy"), store);
    }
    rl_decision seen = {0};
    if (ask(limiter, name, step, &seen) != RL_OK) {
      check_failed(name, number, "%s", rl_last_error());
    }
    const json *expect = json_find(step, "expect");
    if (expect != NULL && !is_expected(&seen, expect)) {
      check_failed(name, number,
                   "allowed %d, limit %" PRIu64 ", remaining %" PRIu64 ", retry %" PRIu64 ", reset %" PRIu64,
                   seen.allowed, seen.limit, seen.remaining, seen.retry_after_us, seen.reset_after_us);
    }
  }
  rl_limiter_free(limiter);
}

static void run_all(const char *dsn) {
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  DIR *files = opendir(folder);
  CHECK(files != NULL);
  int cases = 0;
  for (struct dirent *file = readdir(files); file != NULL; file = readdir(files)) {
    char path[4096];
    if (strstr(file->d_name, ".json") != NULL) {
      snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
      json *tree = json_read(path);
      for (const json *test = json_get(tree, "cases")->first; test != NULL; test = test->next, cases++) {
        run_case(test, store);
      }
      json_free(tree);
    }
  }
  closedir(files);
  rl_store_free(store);
  CHECK(cases > 20);
}

static void memory_answers_every_vector(void) { run_all("memory:?max_keys=2000"); }

static void redis_answers_every_vector(void) {
  server redis = server_start();
  run_all(dsn_of(&redis));
  server_end(&redis);
}

void vectors(const char *where) {
  folder = where;
  TEST(memory_answers_every_vector);
  TEST(redis_answers_every_vector);
}
