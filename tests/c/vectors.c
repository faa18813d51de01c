#include "tests.h"

#include "support/check.h"
#include "support/json.h"
#include "support/limiter.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_POLICIES = 8, MAX_KEY = 256 };

/* The instant at which every case begins. */
static const uint64_t EPOCH_US = UINT64_C(1700000000000000);

static const char *root;

static uint64_t count(const json *numbers, const char *name) { return (uint64_t)json_integer(numbers, name); }

static rl_status token_bucket(const json *it, rl_policy **out) {
  return rl_policy_token_bucket(count(it, "capacity"), json_double(it, "refill_rate"),
                                json_double(it, "refill_interval"), json_bool(it, "continuous"), out);
}

static rl_status leaky_bucket(const json *it, rl_policy **out) {
  return rl_policy_leaky_bucket(count(it, "capacity"), json_double(it, "leak_rate"), out);
}

static rl_status gcra(const json *it, rl_policy **out) {
  uint64_t burst = json_is_null(it, "burst") ? 0 : count(it, "burst");
  return rl_policy_gcra(count(it, "limit"), json_double(it, "period"), burst, out);
}

static rl_status fixed_window(const json *it, rl_policy **out) {
  return rl_policy_fixed_window(count(it, "limit"), json_double(it, "window"), json_bool(it, "aligned"), out);
}

static rl_status sliding_window_log(const json *it, rl_policy **out) {
  return rl_policy_sliding_window_log(count(it, "limit"), json_double(it, "window"), out);
}

static rl_status sliding_window_counter(const json *it, rl_policy **out) {
  return rl_policy_sliding_window_counter(count(it, "limit"), json_double(it, "window"), out);
}

static rl_status parsed(const json *it, rl_policy **out) { return rl_policy_parse(json_string(it, "text"), out); }

/* How each algorithm of the vectors is made. */
static const struct {
  const char *name;
  rl_status (*make)(const json *policy, rl_policy **out);
} algorithms[] = {
    {"token_bucket", token_bucket},
    {"leaky_bucket", leaky_bucket},
    {"gcra", gcra},
    {"fixed_window", fixed_window},
    {"sliding_window_log", sliding_window_log},
    {"sliding_window_counter", sliding_window_counter},
    {"parsed", parsed},
};

static const struct {
  const char *name;
  rl_verb verb;
} spoken[] = {
    {"allow", RL_VERB_ALLOW},   {"peek", RL_VERB_PEEK},   {"reserve", RL_VERB_RESERVE},
    {"refund", RL_VERB_REFUND}, {"reset", RL_VERB_RESET},
};

/* A limiter with the names of its policies, which stay in the tree they were read from. */
typedef struct {
  rl_limiter *limiter;
  const char *names[MAX_POLICIES];
  size_t policies;
} bound;

static rl_policy *policy_of(const json *numbers) {
  rl_policy *policy = NULL;
  const char *name = json_string(numbers, "algorithm");
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    if (strcmp(algorithms[i].name, name) == 0) {
      CHECK_EQUAL(algorithms[i].make(numbers, &policy), RL_OK);
    }
  }
  if (policy == NULL) {
    check_failed(__FILE__, __LINE__, "the algorithm %s is not known", name);
  }
  if (json_find(numbers, "name") != NULL) {
    CHECK_EQUAL(rl_policy_set_name(policy, json_string(numbers, "name")), RL_OK);
  }
  return policy;
}

/* The limiter of a case or a step: of its `policy`, or of its list of `policies`. */
static bound bind(const json *holder, rl_store *store) {
  bound result = {0};
  rl_policy *policies[MAX_POLICIES];
  const json *list = json_find(holder, "policies");
  const json *numbers = list != NULL ? list->first : json_get(holder, "policy");
  for (; numbers != NULL; numbers = list != NULL ? numbers->next : NULL) {
    CHECK(result.policies < MAX_POLICIES);
    result.names[result.policies] = json_find(numbers, "name") != NULL ? json_string(numbers, "name") : "default";
    policies[result.policies++] = policy_of(numbers);
  }
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const *)policies, result.policies, store, NULL, &result.limiter), RL_OK);
  for (size_t i = 0; i < result.policies; i++) {
    rl_policy_free(policies[i]);
  }
  return result;
}

/* What a step asks; `each` has room for a decision per policy. */
static rl_status ask(const bound *on, const char *test, const json *step, rl_decision *out, rl_decision *each) {
  rl_call call = {.struct_size = sizeof call, .now_us = EPOCH_US + count(step, "at_us")};
  const char *verb = json_string(step, "verb");
  size_t known = 0;
  while (known < sizeof spoken / sizeof *spoken && strcmp(spoken[known].name, verb) != 0) {
    known++;
  }
  if (known == sizeof spoken / sizeof *spoken) {
    check_failed(__FILE__, __LINE__, "the verb %s is not known", verb);
  }
  call.verb = spoken[known].verb;
  if (call.verb != RL_VERB_RESET) {
    call.cost = json_integer(step, "cost");
  }
  if (call.verb == RL_VERB_RESERVE) {
    call.max_wait_us = json_is_null(step, "max_wait_us") ? RL_NEVER : count(step, "max_wait_us");
  }
  char texts[MAX_POLICIES][MAX_KEY];
  rl_key keys[MAX_POLICIES];
  if (json_find(step, "keys") == NULL) {
    call.key = (const uint8_t *)test;
    call.key_len = strlen(test);
  } else {
    call.keys = keys;
    for (const json *it = json_get(step, "keys")->first; it != NULL; it = it->next, call.keys_len++) {
      CHECK(call.keys_len < MAX_POLICIES);
      char *text = texts[call.keys_len];
      int length = snprintf(text, MAX_KEY, "%s: %s", test, it->text);
      CHECK(length > 0 && length < MAX_KEY);
      keys[call.keys_len] = (rl_key){.policy = it->name, .key = (const uint8_t *)text, .key_len = (size_t)length};
    }
  }
  return rl_decide(on->limiter, &call, out, each, on->policies);
}

/* Ends the test unless a decision is the one a step must get; a wait of null is one that never ends. What is refused
 * without asking Redis is refused with the numbers that Redis would give. */
static void check_decision(const char *test, int number, const rl_decision *seen, const json *expect, uint32_t policy) {
  uint64_t retry_after_us = json_is_null(expect, "retry_after_us") ? RL_NEVER : count(expect, "retry_after_us");
  uint64_t delay_us = json_find(expect, "delay_us") == NULL ? 0 : count(expect, "delay_us");
  if (seen->allowed != json_bool(expect, "allowed") || seen->limit != count(expect, "limit") ||
      seen->remaining != count(expect, "remaining") || seen->retry_after_us != retry_after_us ||
      seen->reset_after_us != count(expect, "reset_after_us") || seen->delay_us != delay_us ||
      seen->policy != policy || seen->degraded ||
      (seen->source != RL_SOURCE_STORE && seen->source != RL_SOURCE_DENY_CACHE)) {
    check_failed(test, number,
                 "allowed %d, limit %" PRIu64 ", remaining %" PRIu64 ", retry %" PRIu64 ", reset %" PRIu64
                 ", delay %" PRIu64 ", policy %" PRIu32,
                 seen->allowed, seen->limit, seen->remaining, seen->retry_after_us, seen->reset_after_us,
                 seen->delay_us, seen->policy);
  }
}

static void check_step(const bound *on, const char *test, int number, const json *step) {
  rl_decision seen = {0}, each[MAX_POLICIES] = {0};
  if (ask(on, test, step, &seen, each) != RL_OK) {
    check_failed(test, number, "%s", rl_last_error());
  }
  const json *expect = json_find(step, "expect");
  if (expect == NULL) {
    return;
  }
  if (json_find(expect, "each") == NULL) {
    check_decision(test, number, &seen, expect, 0);
    check_decision(test, number, &each[0], expect, 0);
    return;
  }
  uint32_t ruling = 0, policy = 0;
  while (ruling < on->policies && strcmp(on->names[ruling], json_string(expect, "policy")) != 0) {
    ruling++;
  }
  check_decision(test, number, &seen, expect, ruling);
  for (const json *it = json_get(expect, "each")->first; it != NULL; it = it->next, policy++) {
    CHECK(policy < on->policies);
    check_decision(test, number, &each[policy], it, policy);
  }
  CHECK_EQUAL(policy, on->policies);
}

static void run_case(const json *test, rl_store *store) {
  const char *name = json_string(test, "name");
  bound on = bind(test, store);
  int number = 0;
  for (const json *step = json_get(test, "steps")->first; step != NULL; step = step->next, number++) {
    if (json_find(step, "policy") != NULL) {
      rl_limiter_free(on.limiter);
      on = bind(step, store);
    }
    check_step(&on, name, number, step);
  }
  rl_limiter_free(on.limiter);
}

/* Ends the test unless a text is the expected one. */
static void check_text(const char *test, const char *what, const char *seen, const char *expected) {
  if (strcmp(seen, expected) != 0) {
    check_failed(test, 0, "%s: got\n%s\n  expected\n%s", what, seen, expected);
  }
}

/* The decision of the last step in every style of headers, and as problem details. */
static void run_emit(const json *test, rl_store *store) {
  const char *name = json_string(test, "name");
  bound on = bind(test, store);
  rl_decision seen = {0}, each[MAX_POLICIES] = {0};
  uint64_t now_us = 0;
  for (const json *step = json_get(test, "steps")->first; step != NULL; step = step->next) {
    CHECK_EQUAL(ask(&on, name, step, &seen, each), RL_OK);
    now_us = EPOCH_US + count(step, "at_us");
  }
  char text[2048], expected[2048];
  size_t needed = 0;
  for (const json *style = json_get(test, "headers")->first; style != NULL; style = style->next) {
    size_t length = 0;
    expected[0] = '\0';
    for (const json *field = style->first; field != NULL; field = field->next) {
      length += (size_t)snprintf(expected + length, sizeof expected - length, "%s: %s\r\n", field->name, field->text);
    }
    rl_header_options options = {.struct_size = sizeof options, .style = style->name, .now_us = now_us};
    options.each = each;
    options.each_len = on.policies;
    CHECK_EQUAL(rl_headers_with(on.limiter, &seen, &options, text, sizeof text, &needed), RL_OK);
    check_text(name, style->name, text, expected);
    CHECK_EQUAL(needed, length + 1);
  }
  uint32_t status = 0;
  rl_status written =
      rl_problem(on.limiter, &seen, each, on.policies, NULL, text, sizeof text, &needed, &status);
  const json *problem = json_get(test, "problem");
  if (problem->kind == JSON_NULL) {
    CHECK_EQUAL(written, RL_ERR_INVALID_ARGUMENT);
  } else {
    CHECK_EQUAL(written, RL_OK);
    int length = snprintf(expected, sizeof expected,
                          "{\"type\":\"%s\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\",\"violated-policies\":[",
                          json_string(problem, "type"), json_string(problem, "title"),
                          (int)json_integer(problem, "status"), json_string(problem, "detail"));
    const char *comma = "";
    for (const json *it = json_get(problem, "violated-policies")->first; it != NULL; it = it->next, comma = ",") {
      length += snprintf(expected + length, sizeof expected - (size_t)length, "%s\"%s\"", comma, it->text);
    }
    snprintf(expected + length, sizeof expected - (size_t)length, "]}");
    check_text(name, "problem", text, expected);
    CHECK_EQUAL(status, count(problem, "status"));
  }
  rl_limiter_free(on.limiter);
}

/* Runs every file of a folder of the vectors and returns how many cases there were. */
static int run_folder(const char *name, void (*run)(const json *test, rl_store *store), rl_store *store) {
  char folder[2048], path[4096];
  snprintf(folder, sizeof folder, "%s/%s", root, name);
  DIR *files = opendir(folder);
  CHECK(files != NULL);
  int cases = 0;
  for (struct dirent *file = readdir(files); file != NULL; file = readdir(files)) {
    if (strstr(file->d_name, ".json") != NULL) {
      snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
      json *tree = json_read(path);
      for (const json *test = json_get(tree, "cases")->first; test != NULL; test = test->next, cases++) {
        run(test, store);
      }
      json_free(tree);
    }
  }
  closedir(files);
  return cases;
}

static void run_all(const char *dsn) {
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  CHECK(run_folder("policy", run_case, store) >= 90);
  CHECK(run_folder("several", run_case, store) >= 8);
  rl_store_free(store);
}

static void decisions_become_the_headers_and_problems_of_every_vector(void) {
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=403", &store), RL_OK);
  CHECK(run_folder("headers/emit", run_emit, store) >= 9);
  rl_store_free(store);
}

static void memory_answers_every_vector(void) { run_all("memory:?max_keys=20000"); }

static void shared_memory_answers_every_vector(void) {
  char folder[] = "/tmp/rl-vectors-XXXXXX", dsn[96], file[64];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(file, sizeof file, "%s/limits", folder);
  snprintf(dsn, sizeof dsn, "shared:%s?size=16MiB", file);
  run_all(dsn);
  CHECK(unlink(file) == 0 && rmdir(folder) == 0);
}

static void redis_answers_every_vector(void) {
  server redis = server_start();
  run_all(dsn_of(&redis));
  server_end(&redis);
}

void vectors(const char *folder) {
  root = folder;
  TEST(memory_answers_every_vector);
  TEST(shared_memory_answers_every_vector);
  TEST(redis_answers_every_vector);
  TEST(decisions_become_the_headers_and_problems_of_every_vector);
}
