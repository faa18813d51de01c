#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_wrong_cost_is_refused_before_redis_is_asked(void) {
  static const int64_t costs[] = {0, -1, -1000000, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MIN, INT64_MAX};
  server redis = server_start();
  rl_decision untouched, decision;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&decision, &untouched, sizeof decision);
  for (size_t algorithm = 0; algorithm < ALGORITHMS; algorithm++) {
    rl_limiter *limiter = limiter_by(dsn_of(&redis), 1, &five_of[algorithm], NULL);
    CHECK_EQUAL(remaining_after_one(limiter, "payer"), 4);
    CHECK_EQUAL(remaining_after_one(limiter, "payer"), 3);
    long asked = server_decisions(&redis);
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
      char sentence[128];
      snprintf(sentence, sizeof sentence, "cost must be an integer between 1 and 2147483647, got %" PRId64, costs[i]);
#define CHECK_COST(call) (CHECK_EQUAL(call, RL_ERR_INVALID_ARGUMENT), CHECK_BEGINS(rl_last_error(), sentence))
      CHECK_COST(allow(limiter, "payer", costs[i], &decision));
      CHECK_COST(peek(limiter, "payer", costs[i], &decision));
      CHECK_COST(reserve(limiter, "payer", costs[i], RL_NEVER, &decision));
      CHECK_COST(wait_for(limiter, "payer", costs[i], RL_NEVER, &decision));
      CHECK_COST(refund(limiter, "payer", costs[i]));
      for (int verb = RL_VERB_ALLOW; verb < RL_VERB_RESET; verb++) {
        rl_call call = call_of((rl_verb)verb, "payer", costs[i]);
        CHECK_COST(decide(limiter, &call, &decision));
      }
#undef CHECK_COST
      CHECK(memcmp(&decision, &untouched, sizeof decision) == 0);
    }
    CHECK_EQUAL(server_decisions(&redis), asked);
    for (uint64_t left = 3; left > 0; left--) {
      CHECK_EQUAL(remaining_after_one(limiter, "payer"), left - 1);
    }
    rl_decision denied;
    CHECK_EQUAL(allow(limiter, "payer", 1, &denied), RL_OK);
    CHECK(!denied.allowed);
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

static void a_cost_above_the_limit_is_denied_for_ever(void) {
  static const int64_t costs[] = {6, 200000000, INT32_MAX};
  for (size_t algorithm = 0; algorithm < ALGORITHMS; algorithm++) {
    rl_limiter *limiter = limiter_by("memory:?max_keys=201", 1, &five_of[algorithm], NULL);
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
      rl_decision decision;
      CHECK_EQUAL(allow(limiter, "above the limit", costs[i], &decision), RL_OK);
      CHECK(!decision.allowed);
      CHECK(decision.retry_after_us == RL_NEVER);
      CHECK_EQUAL(decision.remaining, 5);
    }
    CHECK_EQUAL(remaining_after_one(limiter, "above the limit"), 4);
    rl_limiter_free(limiter);
  }
}

static void an_instant_beyond_2112_is_refused(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 60, NULL);
  rl_decision decision;
  CHECK_EQUAL(allow_at(limiter, "late", 1, (UINT64_C(1) << 52) - 1, &decision), RL_OK);
  CHECK_EQUAL(allow_at(limiter, "late", 1, UINT64_C(1) << 52, &decision), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "now_us must be above 0 and below 2^52 microseconds since 1970, got 4503599627370496");
  CHECK_EQUAL(allow_at(limiter, "late", 1, UINT64_MAX, &decision), RL_ERR_INVALID_ARGUMENT);
  rl_limiter_free(limiter);
}

static void a_call_that_contradicts_itself_is_refused(void) {
  rl_limiter *limiter = limiter_on("memory:", 5, 1, 3600, NULL);
  rl_decision decision, each[1];
  const rl_call good = call_of(RL_VERB_ALLOW, "contradiction", 5);
  const rl_key keys[] = {key_of("default", "contradiction")};
  rl_call call;
#define CHECK_REFUSED(change, sentence)                                                          \
  (call = good, change, CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_INVALID_ARGUMENT), \
   CHECK_BEGINS(rl_last_error(), sentence))
  static const uint32_t sizes[] = {0, 4, sizeof(rl_call) - 1, sizeof(rl_call) + 8, UINT32_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_REFUSED(call.struct_size = sizes[i], "struct_size must be ");
  }
  static const uint32_t numbers[] = {6, 7, 255, 0x7fffffff, 0x80000000, UINT32_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    CHECK_REFUSED(memcpy(&call.verb, &numbers[i], sizeof numbers[i]), "verb must be one of rl_verb, got ");
  }
  CHECK_REFUSED(call.key = NULL, "key must not be NULL");
  CHECK_REFUSED(call.keys_len = 1, "keys must not be NULL");
  CHECK_REFUSED(call.token_len = 1, "token must not be NULL");
  CHECK_REFUSED(call.token = (const uint8_t *)"", "token must not be empty");
  CHECK_REFUSED((call.keys = keys, call.keys_len = 1), "key must be NULL where keys are given");
  CHECK_REFUSED((call.verb = RL_VERB_WAIT, call.now_us = 1), "now_us must be 0 for a wait, which sleeps, got 1");
#undef CHECK_REFUSED
  CHECK_EQUAL(rl_decide(limiter, &good, &decision, NULL, 1), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "each must not be NULL");
  CHECK_EQUAL(rl_decide(limiter, &good, &decision, each, SIZE_MAX), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "each_len must be at most ");
  /* Only the size is read of a struct that is shorter than today's. */
  uint32_t *short_struct = malloc(sizeof *short_struct);
  CHECK(short_struct != NULL);
  *short_struct = sizeof *short_struct;
  CHECK_EQUAL(decide(limiter, (const rl_call *)(void *)short_struct, &decision), RL_ERR_INVALID_ARGUMENT);
  free(short_struct);
  /* None of them has taken anything. */
  CHECK_EQUAL(rl_decide(limiter, &good, &decision, each, 1), RL_OK);
  CHECK(decision.allowed);
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
  rl_policy *no_policy = NULL;
  CHECK_NULL(rl_policy_fixed_window(5, 1, false, NULL), "out");
  CHECK_NULL(rl_policy_sliding_window_log(5, 1, NULL), "out");
  CHECK_NULL(rl_policy_sliding_window_counter(5, 1, NULL), "out");
  CHECK_NULL(rl_policy_leaky_bucket(5, 1, NULL), "out");
  CHECK_NULL(rl_policy_gcra(5, 1, 0, NULL), "out");
  CHECK_NULL(rl_policy_parse("5/s", NULL), "out");
  CHECK_NULL(rl_policy_parse(NULL, &no_policy), "text");
  CHECK(no_policy == NULL);
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
  CHECK_NULL(rl_reserve(NULL, key, 3, 1, 0, &decision), "limiter");
  CHECK_NULL(rl_reserve(limiter, NULL, 3, 1, 0, &decision), "key");
  CHECK_NULL(rl_reserve(limiter, key, 3, 1, 0, NULL), "out");
  CHECK_NULL(rl_wait(NULL, key, 3, 1, 0, &decision), "limiter");
  CHECK_NULL(rl_wait(limiter, NULL, 3, 1, 0, &decision), "key");
  CHECK_NULL(rl_wait(limiter, key, 3, 1, 0, NULL), "out");
  CHECK_NULL(rl_refund(NULL, key, 3, 1), "limiter");
  CHECK_NULL(rl_refund(limiter, NULL, 3, 1), "key");
  CHECK_NULL(rl_reset(NULL, key, 3), "limiter");
  CHECK_NULL(rl_reset(limiter, NULL, 3), "key");
  for (int verb = RL_VERB_ALLOW; verb <= RL_VERB_RESET; verb++) {
    rl_call call = call_of((rl_verb)verb, "key", 1);
    CHECK_NULL(decide(NULL, &call, &decision), "limiter");
    /* What answers nothing needs no place for an answer. */
    if (verb != RL_VERB_REFUND && verb != RL_VERB_RESET) {
      CHECK_NULL(decide(limiter, &call, NULL), "out");
    } else {
      CHECK_EQUAL(decide(limiter, &call, NULL), RL_OK);
    }
  }
  CHECK_NULL(decide(limiter, NULL, &decision), "call");

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

static void a_key_of_many_mib_is_a_key(void) {
  /* Hashing takes very long under Valgrind, which has not the instructions for it. */
  const size_t length = (check_quick() ? 2u : 64u) << 20;
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
  TEST(a_wrong_cost_is_refused_before_redis_is_asked);
  TEST(a_cost_above_the_limit_is_denied_for_ever);
  TEST(an_instant_beyond_2112_is_refused);
  TEST(a_call_that_contradicts_itself_is_refused);
  TEST(null_is_reported_by_the_name_of_the_argument);
  TEST(a_key_is_any_bytes);
  TEST(a_length_that_no_memory_can_have_is_refused);
  TEST(a_key_of_many_mib_is_a_key);
  TEST(a_dsn_that_names_no_store_is_refused_and_no_password_repeated);
}
