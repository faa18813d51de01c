#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <stdio.h>
#include <string.h>

enum { CLIENT, EVERYBODY };

static const named_policy POLICIES[] = {{"client", "1 burst, 1/h"}, {"everybody", "10/2h log"}};

/* One unit for a client, of its own budget and of everybody's. */
static rl_decision take(rl_limiter *limiter, const char *client, rl_decision each[2]) {
  /* In another order than the policies. */
  const rl_key keys[] = {key_of("everybody", "shared"), key_of("client", client)};
  rl_call call = {.struct_size = sizeof call, .keys = keys, .keys_len = 2, .cost = 1};
  rl_decision decision = {0};
  if (rl_decide(limiter, &call, &decision, each, 2) != RL_OK) {
    check_failed(__FILE__, __LINE__, "%s", rl_last_error());
  }
  return decision;
}

static void what_one_policy_refuses_costs_the_others_nothing(void) {
  server redis = server_start();
  const char *dsns[] = {"memory:?max_keys=600", dsn_of(&redis)};
  for (size_t i = 0; i < 2; i++) {
    rl_limiter *limiter = limiter_by(dsns[i], 2, POLICIES, NULL);
    rl_decision decision, each[2];
    for (int call = 0; call < 20; call++) {
      decision = take(limiter, "greedy", each);
      CHECK_EQUAL(decision.allowed, call == 0);
      CHECK_EQUAL(decision.policy, CLIENT);
      CHECK_EQUAL(decision.retry_after_us, each[CLIENT].retry_after_us);
      CHECK_EQUAL(each[EVERYBODY].remaining, 9);
    }
    for (int client = 0; client < 9; client++) {
      char name[32];
      snprintf(name, sizeof name, "client %d", client);
      CHECK(take(limiter, name, each).allowed);
    }
    decision = take(limiter, "late", each);
    CHECK(!decision.allowed);
    CHECK_EQUAL(decision.policy, EVERYBODY);
    CHECK(each[CLIENT].allowed && !each[EVERYBODY].allowed);
    CHECK_EQUAL(each[CLIENT].remaining, 1);
    CHECK_EQUAL(each[EVERYBODY].policy, EVERYBODY);
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

static void all_algorithms_at_once_are_one_command(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_by(dsn_of(&redis), ALGORITHMS, five_of, NULL);
  rl_decision decision, each[ALGORITHMS];
  rl_call call = call_of(RL_VERB_ALLOW, "user", 2);
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
  long asked = server_calls(&redis, "evalsha");
  CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, ALGORITHMS), RL_OK);
  CHECK_EQUAL(server_calls(&redis, "evalsha"), asked + 1);
  CHECK_EQUAL(server_calls(&redis, "eval"), 1);
  for (uint32_t i = 0; i < ALGORITHMS; i++) {
    CHECK(each[i].allowed);
    CHECK_EQUAL(each[i].policy, i);
    CHECK_EQUAL(each[i].limit, 5);
    CHECK_EQUAL(each[i].remaining, 1);
  }
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
  CHECK(!decision.allowed);
  CHECK_EQUAL(remaining(limiter, "user"), 1);
  CHECK_EQUAL(refund(limiter, "user", 1), RL_OK);
  CHECK_EQUAL(remaining(limiter, "user"), 2);
  CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"user", 4), RL_OK);
  CHECK_EQUAL(remaining(limiter, "user"), 5);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void every_verb_takes_a_key_per_policy(void) {
  rl_limiter *limiter = limiter_by("memory:?max_keys=601", 2, POLICIES, NULL);
  const rl_key keys[] = {key_of("client", "me"), key_of("everybody", "us")};
  rl_call call = {.struct_size = sizeof call, .keys = keys, .keys_len = 2, .cost = 1};
  rl_decision decision, each[2];
#define EXPECT(asked, client, everybody)                                                    \
  (call.verb = asked, CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, 2), RL_OK),    \
   call.verb = RL_VERB_PEEK, CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, 2), RL_OK), \
   CHECK_EQUAL(each[CLIENT].remaining, client), CHECK_EQUAL(each[EVERYBODY].remaining, everybody))
  EXPECT(RL_VERB_PEEK, 1, 10);
  EXPECT(RL_VERB_ALLOW, 0, 9);
  EXPECT(RL_VERB_REFUND, 1, 10);
  EXPECT(RL_VERB_WAIT, 0, 9);
  EXPECT(RL_VERB_RESET, 1, 10);
#undef EXPECT
  call.verb = RL_VERB_RESERVE;
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "reserve does not go with policy \"everybody\": ");
  call.verb = RL_VERB_WAIT;
  call.cost = 2;
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_WAIT_TOO_LONG);
  CHECK_BEGINS(rl_last_error(), "policy \"client\" lets nothing pass in time: the cost 2 is above the limit 1");
  rl_limiter_free(limiter);
}

static void keys_that_are_not_those_of_the_policies_are_refused(void) {
  rl_limiter *limiter = limiter_by("memory:?max_keys=602", 2, POLICIES, NULL);
  const rl_key mine = key_of("client", "me"), ours = key_of("everybody", "us");
  const struct {
    rl_key keys[3];
    size_t length;
    const char *sentence;
  } cases[] = {
      {{mine}, 0, "key has no entry for policy \"client\""},
      {{mine}, 1, "key has no entry for policy \"everybody\""},
      {{mine, ours, key_of("nobody", "us")}, 3, "key names a policy \"nobody\" that the limiter does not have"},
      {{mine, ours, key_of("client", "you")}, 3, "key names policy \"client\" twice"},
      {{mine, ours, ours}, 3, "key names policy \"everybody\" twice"},
      {{mine, mine}, 2, "key names policy \"client\" twice"},
      {{mine, {.key = ours.key, .key_len = 2}}, 2, "policy must not be NULL"},
      {{mine, {.policy = "everybody", .key_len = 2}}, 2, "key must not be NULL"},
      {{mine, key_of("caf\xe9", "us")}, 2, "policy must be UTF-8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int verb = RL_VERB_ALLOW; verb <= RL_VERB_RESET; verb++) {
      rl_decision decision;
      rl_call call = {.struct_size = sizeof call, .verb = (rl_verb)verb, .cost = 1};
      call.keys = cases[i].keys;
      call.keys_len = cases[i].length;
      if (verb == RL_VERB_RESERVE) {
        continue; /* Refused for its window policy already. */
      }
      CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_INVALID_ARGUMENT);
      CHECK_BEGINS(rl_last_error(), cases[i].sentence);
    }
  }
  rl_decision each[2];
  CHECK(take(limiter, "me", each).allowed);
  CHECK_EQUAL(each[CLIENT].remaining, 0);
  CHECK_EQUAL(each[EVERYBODY].remaining, 9);
  rl_limiter_free(limiter);
}

static void a_place_too_small_for_each_policy_is_refused_and_nothing_taken(void) {
  rl_limiter *limiter = limiter_by("memory:?max_keys=603", 2, POLICIES, NULL);
  rl_call call = call_of(RL_VERB_ALLOW, "user", 1);
  rl_decision decision, each[3], untouched;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&each[2], &untouched, sizeof untouched);
  CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, 1), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "each_len must be at least 2, one per policy, got 1");
  CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, 3), RL_OK);
  CHECK(decision.allowed);
  CHECK_EQUAL(each[EVERYBODY].remaining, 9);
  CHECK(memcmp(&each[2], &untouched, sizeof untouched) == 0);
  rl_limiter_free(limiter);
}

static void each_policy_has_a_failure_rule_for_an_answer(void) {
  static const rl_on_error rules[] = {RL_ON_ERROR_OPEN, RL_ON_ERROR_CLOSED, RL_ON_ERROR_LOCAL};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    rl_limiter_options options = {.struct_size = sizeof options, .on_error = rules[i]};
    /* Nobody listens there. */
    rl_limiter *limiter = limiter_by("redis://127.0.0.1:1", 2, POLICIES, &options);
    rl_call call = call_of(RL_VERB_ALLOW, "without a server", 1);
    rl_decision decision, each[2];
    CHECK_EQUAL(rl_decide(limiter, &call, &decision, each, 2), RL_OK);
    CHECK(decision.degraded && each[CLIENT].degraded && each[EVERYBODY].degraded);
    CHECK_EQUAL(decision.allowed, rules[i] != RL_ON_ERROR_CLOSED);
    CHECK_EQUAL(each[EVERYBODY].policy, EVERYBODY);
    CHECK_EQUAL(each[EVERYBODY].remaining, rules[i] == RL_ON_ERROR_LOCAL ? 9 : 0);
    rl_limiter_free(limiter);
  }
}

void several(void) {
  TEST(what_one_policy_refuses_costs_the_others_nothing);
  TEST(all_algorithms_at_once_are_one_command);
  TEST(every_verb_takes_a_key_per_policy);
  TEST(keys_that_are_not_those_of_the_policies_are_refused);
  TEST(a_place_too_small_for_each_policy_is_refused_and_nothing_taken);
  TEST(each_policy_has_a_failure_rule_for_an_answer);
}
