#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <stdlib.h>
#include <string.h>

/* What callbacks have been told, copied, since the texts go when they return. */
typedef struct {
  int decisions, errors;
  rl_decision_event decision;
  rl_store_error_event error;
  char policy[32], key[32], store[16], kind[16], message[256];
  rl_limiter *asks; /* asked from within the callback */
} heard;

static void copy(char *to, size_t size, const char *from) {
  size_t length = strlen(from);
  CHECK(length < size);
  memcpy(to, from, length + 1);
}

static void hear_decision(const rl_decision_event *event, void *user_data) {
  heard *heard = user_data;
  heard->decisions++;
  heard->decision = *event;
  copy(heard->policy, sizeof heard->policy, event->policy);
  copy(heard->key, sizeof heard->key, event->key);
  copy(heard->store, sizeof heard->store, event->store);
  if (heard->asks != NULL) {
    rl_decision decision;
    CHECK_EQUAL(allow(heard->asks, "from the callback", 1, &decision), RL_OK);
  }
}

static void hear_error(const rl_store_error_event *event, void *user_data) {
  heard *heard = user_data;
  heard->errors++;
  heard->error = *event;
  copy(heard->kind, sizeof heard->kind, event->kind);
  copy(heard->message, sizeof heard->message, event->message);
}

static void listen_to(rl_limiter *limiter, heard *heard) {
  CHECK_EQUAL(rl_limiter_set_on_decision(limiter, hear_decision, heard), RL_OK);
  CHECK_EQUAL(rl_limiter_set_on_store_error(limiter, hear_error, heard), RL_OK);
}

static const named_policy three_per_hour = {"three", "3/h burst 3"};

static void a_callback_is_told_each_decision_without_the_key(void) {
  heard heard = {0};
  rl_limiter *limiter = limiter_by("memory:?max_keys=701", 1, &three_per_hour, NULL);
  listen_to(limiter, &heard);
  rl_decision decision;
  CHECK_EQUAL(allow(limiter, "ada@example.org", 2, &decision), RL_OK);
  CHECK_EQUAL(heard.decisions, 1);
  CHECK_EQUAL(heard.decision.verb, RL_VERB_ALLOW);
  CHECK_EQUAL(heard.decision.cost, 2);
  CHECK(heard.decision.decision.allowed);
  CHECK_EQUAL(heard.decision.decision.remaining, 1);
  CHECK_EQUAL(heard.decision.decision.limit, 3);
  CHECK(strcmp(heard.policy, "three") == 0 && strcmp(heard.store, "memory") == 0);
  CHECK_EQUAL(strlen(heard.key), 16);
  CHECK(strstr(heard.key, "ada") == NULL);
  char first[32];
  copy(first, sizeof first, heard.key);
  CHECK_EQUAL(allow(limiter, "ada@example.org", 2, &decision), RL_OK);
  CHECK(!heard.decision.decision.allowed && heard.decision.decision.retry_after_us > 0);
  CHECK(strcmp(first, heard.key) == 0);
  CHECK_EQUAL(peek(limiter, "bob@example.org", 1, &decision), RL_OK);
  CHECK_EQUAL(heard.decision.verb, RL_VERB_PEEK);
  CHECK(strcmp(first, heard.key) != 0);
  CHECK_EQUAL(refund(limiter, "ada@example.org", 2), RL_OK);
  CHECK_EQUAL(heard.decision.verb, RL_VERB_REFUND);
  CHECK_EQUAL(heard.decisions, 4);
  CHECK_EQUAL(heard.errors, 0);
  rl_limiter_free(limiter);
}

static void a_callback_is_told_that_the_server_is_away_and_what_the_rule_answers(void) {
  server redis = server_start();
  heard heard = {0};
  rl_limiter_options options = {.struct_size = sizeof options, .on_error = RL_ON_ERROR_OPEN};
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 3, 1, 3600, &options);
  listen_to(limiter, &heard);
  server_stop(&redis);
  rl_decision decision;
  CHECK_EQUAL(allow(limiter, "ada@example.org", 1, &decision), RL_OK);
  CHECK_EQUAL(heard.errors, 1);
  CHECK_EQUAL(heard.decisions, 1);
  CHECK(strcmp(heard.kind, "refused") == 0);
  CHECK(strstr(heard.message, "127.0.0.1") != NULL && strstr(heard.message, "ada") == NULL);
  CHECK(heard.decision.decision.degraded);
  CHECK_EQUAL(heard.decision.decision.source, RL_SOURCE_FAIL_OPEN);
  CHECK(strcmp(heard.store, "redis") == 0);
  CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"ada", 3), RL_ERR_STORE_UNAVAILABLE);
  CHECK_EQUAL(heard.errors, 2);
  CHECK_EQUAL(heard.error.verb, RL_VERB_RESET);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_callback_may_ask_the_same_limiter(void) {
  heard heard = {0};
  rl_limiter *limiter = limiter_by("memory:?max_keys=702", 1, &three_per_hour, NULL);
  heard.asks = limiter;
  listen_to(limiter, &heard);
  rl_decision decision;
  CHECK_EQUAL(allow(limiter, "ada", 1, &decision), RL_OK);
  CHECK_EQUAL(heard.decisions, 1);
  heard.asks = NULL;
  CHECK_EQUAL(remaining(limiter, "from the callback"), 2);
  rl_limiter_free(limiter);
}

static void a_limiter_has_one_callback_of_each_kind(void) {
  heard heard = {0};
  rl_limiter *limiter = limiter_by("memory:?max_keys=703", 1, &three_per_hour, NULL);
  CHECK_EQUAL(rl_limiter_set_on_decision(limiter, NULL, &heard), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "callback must not be NULL");
  listen_to(limiter, &heard);
  CHECK_EQUAL(rl_limiter_set_on_decision(limiter, hear_decision, &heard), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "on_decision is set already");
  CHECK_EQUAL(rl_limiter_set_on_store_error(limiter, hear_error, &heard), RL_ERR_INVALID_ARGUMENT);
  rl_limiter_free(limiter);
}

void events(void) {
  TEST(a_callback_is_told_each_decision_without_the_key);
  TEST(a_callback_is_told_that_the_server_is_away_and_what_the_rule_answers);
  TEST(a_callback_may_ask_the_same_limiter);
  TEST(a_limiter_has_one_callback_of_each_kind);
}
