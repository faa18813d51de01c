#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <string.h>

static const uint64_t SECOND_US = 1000000;

/* The seconds within which an answer that needs no waiting is there. */
static double at_once(void) { return check_valgrind() ? 2 : 0.05; }

/* The seconds by which a wait may take longer than it should: a busy machine wakes sleepers late. */
static double lateness(void) { return check_valgrind() ? 8 : 2; }

/* A store of each kind, one after the other. */
static void on_each_store(void (*test)(const char *dsn)) {
  server redis = server_start();
  test("memory:?max_keys=500");
  test(dsn_of(&redis));
  server_end(&redis);
}

static rl_limiter *limiter_by_text(const char *dsn, const char *text) {
  return limiter_by(dsn, 1, &(named_policy){"default", text}, NULL);
}

static void reserves_ahead(const char *dsn) {
  static const char *texts[] = {"1 burst, 1/h", "1 burst, 1/h continuous", "1/h gcra"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    rl_limiter *limiter = limiter_by_text(dsn, texts[i]);
    rl_decision decision;
    CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"slot", 4), RL_OK);
    CHECK_EQUAL(reserve(limiter, "slot", 1, 0, &decision), RL_OK);
    CHECK(decision.allowed && decision.delay_us == 0);
    for (uint64_t hours = 1; hours <= 2; hours++) {
      /* A slot too far ahead is denied, and takes nothing from the next one. */
      CHECK_EQUAL(reserve(limiter, "slot", 1, 60 * SECOND_US, &decision), RL_OK);
      CHECK(!decision.allowed && decision.delay_us == 0);
      CHECK(decision.retry_after_us > 60 * SECOND_US);
      CHECK_EQUAL(reserve(limiter, "slot", 1, RL_NEVER, &decision), RL_OK);
      CHECK(decision.allowed);
      CHECK(decision.delay_us <= hours * 3600 * SECOND_US);
      CHECK(decision.delay_us > (hours * 3600 - 60) * SECOND_US);
    }
    rl_limiter_free(limiter);
  }
}

static void a_reservation_says_when_to_start(void) { on_each_store(reserves_ahead); }

static void queues(const char *dsn) {
  rl_limiter *limiter = limiter_by_text(dsn, "3 burst, 1/h leaky");
  rl_decision decision;
  for (uint64_t place = 0; place < 3; place++) {
    CHECK_EQUAL(reserve(limiter, "queue", 1, RL_NEVER, &decision), RL_OK);
    CHECK(decision.allowed);
    CHECK(decision.delay_us <= place * 3600 * SECOND_US);
    CHECK(decision.delay_us + 60 * SECOND_US > place * 3600 * SECOND_US);
  }
  CHECK_EQUAL(reserve(limiter, "queue", 1, RL_NEVER, &decision), RL_OK);
  CHECK(!decision.allowed);
  rl_limiter_free(limiter);
}

static void a_leaky_bucket_is_a_queue_that_can_be_full(void) { on_each_store(queues); }

static void a_window_hands_out_no_slots(void) {
  static const char *texts[] = {"5/h", "5/h aligned", "5/day aligned UTC", "5/h log", "5/h sliding"};
  rl_decision untouched, decision;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&decision, &untouched, sizeof decision);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    rl_limiter *limiter = limiter_by_text("memory:?max_keys=501", texts[i]);
    CHECK_EQUAL(reserve(limiter, "window", 1, RL_NEVER, &decision), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), "reserve does not go with policy \"default\": ");
    CHECK(strstr(rl_last_error(), "use wait") != NULL);
    CHECK(memcmp(&decision, &untouched, sizeof decision) == 0);
    rl_limiter_free(limiter);
  }
}

/* Takes the budget, then waits for more of it: not shorter than a look says, and not much longer. */
static void waits(const char *dsn) {
  static const char *texts[] = {"1 burst, 1/100ms",  "1 burst, 1/100ms continuous", "1 burst, 10/s leaky",
                                "1/100ms gcra",      "1/100ms",                     "1/100ms aligned",
                                "1/100ms log",       "1/100ms sliding"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    rl_limiter *limiter = limiter_by_text(dsn, texts[i]);
    rl_decision decision;
    for (int call = 0; call < 2; call++) {
      double started = check_seconds();
      CHECK_EQUAL(peek(limiter, "patient", 1, &decision), RL_OK);
      double wait = (double)decision.retry_after_us / 1e6;
      CHECK_EQUAL(wait_for(limiter, "patient", 1, 10 * SECOND_US, &decision), RL_OK);
      double waited = check_seconds() - started;
      CHECK(decision.allowed);
      CHECK(waited >= wait);
      CHECK(waited < wait + lateness());
    }
    rl_limiter_free(limiter);
  }
}

static void a_wait_sleeps_until_the_call_passes(void) { on_each_store(waits); }

static void gives_up(const char *dsn) {
  static const uint64_t longest[] = {0, SECOND_US, RL_NEVER};
  rl_decision untouched, decision;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&decision, &untouched, sizeof decision);
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    CHECK_EQUAL(remaining(limiter, "eager"), 5);
    for (size_t j = 0; j < sizeof longest / sizeof *longest; j++) {
      double started = check_seconds();
      CHECK_EQUAL(wait_for(limiter, "eager", 6, longest[j], &decision), RL_ERR_WAIT_TOO_LONG);
      CHECK(check_seconds() - started < at_once());
      CHECK(strstr(rl_last_error(), five_of[i].name) != NULL);
      CHECK(strstr(rl_last_error(), "the cost 6 is above the limit 5") != NULL);
      CHECK(strstr(rl_last_error(), "eager") == NULL);
    }
    CHECK(memcmp(&decision, &untouched, sizeof decision) == 0);
    rl_limiter_free(limiter);
  }
}

static void a_wait_that_would_never_end_fails_at_once(void) { on_each_store(gives_up); }

static void keeps_its_bound(const char *dsn) {
  rl_decision decision;
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    /* What is there needs no waiting. */
    CHECK_EQUAL(wait_for(limiter, "bounded", 1, 0, &decision), RL_OK);
    CHECK(decision.allowed && decision.delay_us == 0);
    CHECK_EQUAL(decision.remaining, 4);
    CHECK_EQUAL(allow(limiter, "bounded", 4, &decision), RL_OK);
    CHECK_EQUAL(peek(limiter, "bounded", 1, &decision), RL_OK);
    uint64_t reset_after_us = decision.reset_after_us;
    double started = check_seconds();
    CHECK_EQUAL(wait_for(limiter, "bounded", 1, 0, &decision), RL_ERR_WAIT_TOO_LONG);
    CHECK(check_seconds() - started < at_once());
    started = check_seconds();
    CHECK_EQUAL(wait_for(limiter, "bounded", 1, SECOND_US, &decision), RL_ERR_WAIT_TOO_LONG);
    CHECK(check_seconds() - started < at_once());
    CHECK(strstr(rl_last_error(), "the wait would be longer than the 1 s that are left for it") != NULL);
    /* Nothing has been taken, so no reset has moved away. */
    CHECK_EQUAL(peek(limiter, "bounded", 1, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 0);
    CHECK(decision.reset_after_us <= reset_after_us);
    rl_limiter_free(limiter);
  }
}

static void a_wait_beyond_its_bound_fails_at_once_and_takes_nothing(void) { on_each_store(keeps_its_bound); }

static void refunds(const char *dsn) {
  rl_decision decision;
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    CHECK_EQUAL(refund(limiter, "returner", 3), RL_OK);
    CHECK_EQUAL(remaining(limiter, "returner"), 5);
    CHECK_EQUAL(allow(limiter, "returner", 4, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 1);
    CHECK_EQUAL(refund(limiter, "returner", 1), RL_OK);
    CHECK_EQUAL(remaining(limiter, "returner"), 2);
    CHECK_EQUAL(refund(limiter, "returner", INT32_MAX), RL_OK);
    CHECK_EQUAL(remaining(limiter, "returner"), 5);
    CHECK_EQUAL(remaining_after_one(limiter, "returner"), 4);
    rl_limiter_free(limiter);
  }
}

static void a_refund_gives_back_at_most_what_was_taken(void) { on_each_store(refunds); }

static rl_call call_with_token(rl_verb verb, const char *key, int64_t cost, const char *token) {
  rl_call call = call_of(verb, key, cost);
  call.token = (const uint8_t *)token;
  call.token_len = strlen(token);
  return call;
}

static uint64_t remaining_with_token(rl_limiter *limiter, rl_verb verb, const char *key, const char *token) {
  rl_decision decision = {0};
  rl_call call = call_with_token(verb, key, 1, token);
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
  CHECK(decision.allowed);
  return decision.remaining;
}

static void remembers(const char *dsn) {
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "buyer", "order 7"), 4);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "buyer", "order 7"), 4);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "buyer", "order 8"), 3);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "buyer", "order 7"), 4);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "another buyer", "order 7"), 4);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_WAIT, "waiting buyer", "order 7"), 4);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_WAIT, "waiting buyer", "order 7"), 4);
    CHECK_EQUAL(remaining(limiter, "buyer"), 3);
    CHECK_EQUAL(remaining(limiter, "waiting buyer"), 4);
    rl_limiter_free(limiter);
  }
  rl_limiter *limiter = limiter_by_text(dsn, "1 burst, 1/d");
  rl_call call = call_with_token(RL_VERB_RESERVE, "reserving buyer", 1, "order 9");
  call.max_wait_us = RL_NEVER;
  CHECK_EQUAL(remaining_after_one(limiter, "reserving buyer"), 0);
  rl_decision first, second;
  CHECK_EQUAL(decide(limiter, &call, &first), RL_OK);
  CHECK_EQUAL(decide(limiter, &call, &second), RL_OK);
  CHECK(first.delay_us > 0);
  CHECK_EQUAL(first.delay_us, second.delay_us);
  rl_limiter_free(limiter);
}

static void the_same_token_is_charged_once(void) { on_each_store(remembers); }

static void takes_and_gives_back(const char *dsn) {
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    const rl_call refund = call_with_token(RL_VERB_REFUND, "undecided", 1, "order 7");
    CHECK_EQUAL(remaining_after_one(limiter, "undecided"), 4);
    CHECK_EQUAL(remaining_after_one(limiter, "undecided"), 3);
    /* Each is sent twice; and each once more, after the other. */
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "undecided", "order 7"), 2);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "undecided", "order 7"), 2);
    CHECK_EQUAL(remaining(limiter, "undecided"), 2);
    CHECK_EQUAL(decide(limiter, &refund, NULL), RL_OK);
    CHECK_EQUAL(remaining(limiter, "undecided"), 3);
    CHECK_EQUAL(decide(limiter, &refund, NULL), RL_OK);
    CHECK_EQUAL(remaining(limiter, "undecided"), 3);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "undecided", "order 7"), 2);
    CHECK_EQUAL(decide(limiter, &refund, NULL), RL_OK);
    CHECK_EQUAL(remaining(limiter, "undecided"), 3);
    rl_limiter_free(limiter);
  }
}

static void a_call_and_its_refund_under_one_token_count_once_each(void) { on_each_store(takes_and_gives_back); }

static void looks(const char *dsn) {
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_PEEK, "looker", "order 7"), 5);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_ALLOW, "looker", "order 7"), 4);
    CHECK_EQUAL(remaining_after_one(limiter, "looker"), 3);
    CHECK_EQUAL(remaining_with_token(limiter, RL_VERB_PEEK, "looker", "order 7"), 3);
    CHECK_EQUAL(remaining(limiter, "looker"), 3);
    rl_limiter_free(limiter);
  }
}

static void a_look_neither_uses_a_token_nor_is_answered_from_one(void) { on_each_store(looks); }

void verbs(void) {
  TEST(a_reservation_says_when_to_start);
  TEST(a_leaky_bucket_is_a_queue_that_can_be_full);
  TEST(a_window_hands_out_no_slots);
  TEST(a_wait_sleeps_until_the_call_passes);
  TEST(a_wait_that_would_never_end_fails_at_once);
  TEST(a_wait_beyond_its_bound_fails_at_once_and_takes_nothing);
  TEST(a_refund_gives_back_at_most_what_was_taken);
  TEST(the_same_token_is_charged_once);
  TEST(a_call_and_its_refund_under_one_token_count_once_each);
  TEST(a_look_neither_uses_a_token_nor_is_answered_from_one);
}
