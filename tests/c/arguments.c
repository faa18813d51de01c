#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void numbers_that_make_no_policy_are_refused_by_name(void) {
  static const struct {
    uint64_t capacity;
    double rate, interval_s;
    const char *sentence;
  } cases[] = {
      {0, 1, 1, "capacity must be between 1 and 2147483647, got 0"},
      {(uint64_t)-1, 1, 1, "capacity must be between 1 and 2147483647, got -1"},
      {UINT64_C(1) << 31, 1, 1, "capacity must be between 1 and 2147483647, got 2147483648"},
      {UINT64_C(1) << 63, 1, 1, "capacity must be between 1 and 2147483647, got "},
      {5, 0, 1, "refill_rate must"},
      {5, -1, 1, "refill_rate must"},
      {5, NAN, 1, "refill_rate must"},
      {5, INFINITY, 1, "refill_rate must"},
      {5, 1, 0, "refill_interval must"},
      {5, 1, -1, "refill_interval must"},
      {5, 1, NAN, "refill_interval must"},
      {5, 1, INFINITY, "refill_interval must"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int continuous = 0; continuous <= 1; continuous++) {
      rl_policy *policy = NULL;
      CHECK_EQUAL(rl_policy_token_bucket(cases[i].capacity, cases[i].rate, cases[i].interval_s, continuous, &policy),
                  RL_ERR_INVALID_POLICY);
      CHECK(policy == NULL);
      CHECK_BEGINS(rl_last_error(), cases[i].sentence);
    }
  }
}

static void names_that_make_no_policy_are_refused(void) {
  rl_policy *policy = NULL;
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 1, false, &policy), RL_OK);
  char name[102];
  memset(name, 'n', sizeof name);
  name[101] = '\0';
  const char *names[] = {"", name, "two\nlines", "caf\xc3\xa9"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_EQUAL(rl_policy_set_name(policy, names[i]), RL_ERR_INVALID_POLICY);
    CHECK_BEGINS(rl_last_error(), "name must be 1 to 100 printable ASCII characters, got ");
  }
  CHECK_EQUAL(rl_policy_set_name(policy, "caf\xe9"), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "name must be UTF-8");
  name[100] = '\0';
  CHECK_EQUAL(rl_policy_set_name(policy, name), RL_OK);
  rl_policy_free(policy);
}

static void a_wrong_cost_is_refused_before_redis_is_asked(void) {
  static const int64_t costs[] = {0, -1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MIN, INT64_MAX};
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 5, 1, 60, NULL);
  CHECK_EQUAL(remaining_after_one(limiter, "payer"), 4);
  long asked = server_decisions(&redis);
  rl_decision untouched, decision;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&decision, &untouched, sizeof decision);
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    char sentence[128];
    snprintf(sentence, sizeof sentence, "cost must be an integer between 1 and 2147483647, got %" PRId64, costs[i]);
    CHECK_EQUAL(allow(limiter, "payer", costs[i], &decision), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), sentence);
    CHECK_EQUAL(peek(limiter, "payer", costs[i], &decision), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), sentence);
    CHECK(memcmp(&decision, &untouched, sizeof decision) == 0);
  }
  CHECK_EQUAL(server_decisions(&redis), asked);
  CHECK_EQUAL(remaining_after_one(limiter, "payer"), 3);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_cost_above_the_limit_is_denied_for_ever(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 60, NULL);
  rl_decision decision;
  CHECK_EQUAL(allow(limiter, "above the limit", 6, &decision), RL_OK);
  CHECK(!decision.allowed);
  CHECK(decision.retry_after_us == RL_NEVER);
  CHECK_EQUAL(decision.remaining, 5);
  rl_limiter_free(limiter);
}

static void an_instant_beyond_2255_is_refused(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 60, NULL);
  rl_decision decision;
  const uint8_t *key = (const uint8_t *)"late";
  CHECK_EQUAL(rl_allow_at(limiter, key, 4, 1, (UINT64_C(1) << 53) - 1, &decision), RL_OK);
  CHECK_EQUAL(rl_allow_at(limiter, key, 4, 1, UINT64_C(1) << 53, &decision), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "now_us must be below 2^53");
  CHECK_EQUAL(rl_peek_at(limiter, key, 4, 1, UINT64_MAX, &decision), RL_ERR_INVALID_ARGUMENT);
  rl_limiter_free(limiter);
}

#define CHECK_NULL(call, argument)              \
  (CHECK_EQUAL(call, RL_ERR_INVALID_ARGUMENT),  \
   CHECK_BEGINS(rl_last_error(), argument " must not be NULL"))

static void null_is_reported_by_the_name_of_the_argument(void) {
  rl_store *store = NULL;
  rl_policy *policy = NULL;
  rl_limiter *limiter = NULL, *none = NULL;
  const uint8_t *key = (const uint8_t *)"key";
  rl_decision decision;

  CHECK_NULL(rl_store_open("memory:", NULL), "out");
  CHECK_EQUAL(rl_store_open("memory:", &store), RL_OK);
  CHECK_NULL(rl_policy_token_bucket(5, 1, 1, false, NULL), "out");
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 1, false, &policy), RL_OK);
  CHECK_NULL(rl_policy_set_name(NULL, "name"), "policy");
  CHECK_NULL(rl_policy_set_name(policy, NULL), "name");

  const rl_policy *const policies[] = {policy}, *const nothing[] = {NULL};
  CHECK_NULL(rl_limiter_new(NULL, 1, store, NULL, &none), "policies");
  CHECK_NULL(rl_limiter_new(nothing, 1, store, NULL, &none), "policy");
  CHECK_NULL(rl_limiter_new(policies, 1, NULL, NULL, &none), "store");
  CHECK_NULL(rl_limiter_new(policies, 1, store, NULL, NULL), "out");
  CHECK(none == NULL);
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, NULL, &limiter), RL_OK);

  CHECK_NULL(rl_allow(NULL, key, 3, 1, &decision), "limiter");
  CHECK_NULL(rl_allow(limiter, NULL, 3, 1, &decision), "key");
  CHECK_NULL(rl_allow(limiter, key, 3, 1, NULL), "out");
  CHECK_NULL(rl_peek(NULL, key, 3, 1, &decision), "limiter");
  CHECK_NULL(rl_peek(limiter, NULL, 3, 1, &decision), "key");
  CHECK_NULL(rl_peek(limiter, key, 3, 1, NULL), "out");
  CHECK_NULL(rl_allow_at(NULL, key, 3, 1, 1, &decision), "limiter");
  CHECK_NULL(rl_allow_at(limiter, NULL, 3, 1, 1, &decision), "key");
  CHECK_NULL(rl_allow_at(limiter, key, 3, 1, 1, NULL), "out");
  CHECK_NULL(rl_peek_at(NULL, key, 3, 1, 1, &decision), "limiter");
  CHECK_NULL(rl_peek_at(limiter, NULL, 3, 1, 1, &decision), "key");
  CHECK_NULL(rl_peek_at(limiter, key, 3, 1, 1, NULL), "out");
  CHECK_NULL(rl_reset(NULL, key, 3), "limiter");
  CHECK_NULL(rl_reset(limiter, NULL, 3), "key");

  /* With nowhere to put the answer nothing has been taken. */
  CHECK_EQUAL(rl_allow(limiter, key, 3, 5, &decision), RL_OK);
  CHECK(decision.allowed);
  rl_limiter_free(limiter);
  rl_policy_free(policy);
  rl_store_free(store);
}

static void a_key_is_any_bytes(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 60, NULL);
  static const struct {
    const uint8_t *key;
    size_t length;
    uint64_t remaining;
  } calls[] = {
      {(const uint8_t *)"", 0, 4},        {NULL, 0, 3}, /* the same empty key */
      {(const uint8_t *)"\0", 1, 4},      {(const uint8_t *)"\0\0", 2, 4},
      {(const uint8_t *)"\xff{}\n", 4, 4}, {(const uint8_t *)"\xff{}\n", 4, 3},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    rl_decision decision;
    CHECK_EQUAL(rl_allow(limiter, calls[i].key, calls[i].length, 1, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, calls[i].remaining);
  }
  rl_limiter_free(limiter);
}

static void a_length_that_no_memory_can_have_is_refused(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 60, NULL);
  rl_decision decision;
  CHECK_EQUAL(rl_allow(limiter, (const uint8_t *)"k", SIZE_MAX, 1, &decision), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "key_len must be at most ");
  rl_limiter_free(limiter);
}

static void a_key_of_64_mib_is_a_key(void) {
  const size_t length = 64u << 20;
  uint8_t *key = malloc(length);
  CHECK(key != NULL);
  memset(key, 'k', length);
  server redis = server_start();
  const char *dsns[] = {"memory:", dsn_of(&redis)};
  for (size_t i = 0; i < sizeof dsns / sizeof *dsns; i++) {
    rl_limiter *limiter = limiter_on(dsns[i], 5, 1, 3600, NULL);
    rl_decision decision;
    CHECK_EQUAL(rl_allow(limiter, key, length, 1, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 4);
    key[length - 1] = 'l';
    CHECK_EQUAL(rl_allow(limiter, key, length, 2, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 3);
    key[length - 1] = 'k';
    CHECK_EQUAL(rl_peek(limiter, key, length, 1, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 4);
    rl_limiter_free(limiter);
  }
  server_end(&redis);
  free(key);
}

static void a_dsn_that_names_no_store_is_refused_and_no_password_repeated(void) {
  static const char *dsns[] = {"",
                               "127.0.0.1:6379",
                               "http://cache",
                               "redis://:hunter2@cache/x",
                               "redis://u:hunter2@cache?timeout=0",
                               "redis://u:hunter2@cache?tiemout=1",
                               "memory:here",
                               "memory:?max_keys=0"};
  for (size_t i = 0; i < sizeof dsns / sizeof *dsns; i++) {
    rl_store *store = NULL;
    CHECK_EQUAL(rl_store_open(dsns[i], &store), RL_ERR_INVALID_STORE);
    CHECK(store == NULL);
    CHECK(strlen(rl_last_error()) > 10);
    CHECK(strstr(rl_last_error(), "hunter2") == NULL);
  }
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("redis://caf\xe9", &store), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "dsn must be UTF-8");
}

void arguments(void) {
  TEST(numbers_that_make_no_policy_are_refused_by_name);
  TEST(names_that_make_no_policy_are_refused);
  TEST(a_wrong_cost_is_refused_before_redis_is_asked);
  TEST(a_cost_above_the_limit_is_denied_for_ever);
  TEST(an_instant_beyond_2255_is_refused);
  TEST(null_is_reported_by_the_name_of_the_argument);
  TEST(a_key_is_any_bytes);
  TEST(a_length_that_no_memory_can_have_is_refused);
  TEST(a_key_of_64_mib_is_a_key);
  TEST(a_dsn_that_names_no_store_is_refused_and_no_password_repeated);
}
