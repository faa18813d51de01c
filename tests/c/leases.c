#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <string.h>

static const named_policy windowed = {"leased in C", "100/h"};

static rl_source source_of_one(rl_limiter *limiter) {
  rl_decision decision = {0};
  CHECK_EQUAL(allow_at(limiter, "hot", 1, UINT64_C(1700000000000000), &decision), RL_OK);
  CHECK(decision.allowed);
  return decision.source;
}

static uint64_t left(rl_limiter *limiter) {
  rl_call call = call_of(RL_VERB_PEEK, "hot", 1);
  call.now_us = UINT64_C(1700000000000000);
  rl_decision decision = {0};
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
  return decision.remaining;
}

static void leased_units_are_spent_here_and_go_back(void) {
  server server = server_start();
  rl_limiter_options options = {.struct_size = sizeof options, .lease = 50};
  rl_limiter *limiter = limiter_by(dsn_of(&server), 1, &windowed, &options);
  rl_limiter *other = limiter_by(dsn_of(&server), 1, &windowed, NULL);
  /* 1, 2, 4 and 8 units are leased. */
  for (int leased = 1; leased <= 8; leased *= 2) {
    CHECK_EQUAL(source_of_one(limiter), RL_SOURCE_STORE);
    for (int i = 1; i < leased; i++) {
      CHECK_EQUAL(source_of_one(limiter), RL_SOURCE_LEASE);
    }
  }
  CHECK_EQUAL(source_of_one(limiter), RL_SOURCE_STORE);
  CHECK_EQUAL(left(other), 100 - 31);
  CHECK_EQUAL(rl_return_leases(limiter), RL_OK);
  CHECK_EQUAL(left(other), 100 - 16);
  CHECK_EQUAL(rl_return_leases(other), RL_OK);
  CHECK_EQUAL(rl_return_leases(NULL), RL_ERR_INVALID_ARGUMENT);
  rl_limiter_free(other);
  rl_limiter_free(limiter);
  server_end(&server);
}

static void what_is_no_lease_is_refused(void) {
  rl_store *store = NULL;
  rl_policy *window = NULL, *bucket = NULL;
  rl_limiter *limiter = NULL;
  CHECK_EQUAL(rl_store_open("redis://127.0.0.1:1", &store), RL_OK);
  CHECK_EQUAL(rl_policy_parse("100/h", &window), RL_OK);
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 1, false, &bucket), RL_OK);
  rl_limiter_options options = {.struct_size = sizeof options, .lease = -1};
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){window}, 1, store, &options, &limiter),
              RL_ERR_INVALID_ARGUMENT);
  CHECK(strcmp(rl_last_error(), "lease must be an integer between 0 and 2147483647, got -1") == 0);
  options.lease = 5;
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){bucket}, 1, store, &options, &limiter),
              RL_ERR_INVALID_ARGUMENT);
  CHECK(strstr(rl_last_error(), "lease does not go with policy \"default\"") == rl_last_error());
  CHECK(limiter == NULL);
  rl_policy_free(bucket);
  rl_policy_free(window);
  rl_store_free(store);
}

void leases(void) {
  TEST(leased_units_are_spent_here_and_go_back);
  TEST(what_is_no_lease_is_refused);
}
