#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static rl_batch_item item(const char *key, int64_t cost) {
  return (rl_batch_item){.key = (const uint8_t *)key, .key_len = strlen(key), .cost = cost};
}

/* Whether a decision is still as `fill` left it. */
static bool untouched(const rl_decision *decision) {
  rl_decision filled;
  memset(&filled, 0xA5, sizeof filled);
  return memcmp(decision, &filled, sizeof filled) == 0;
}

static void fill(rl_decision *decisions, size_t n) { memset(decisions, 0xA5, n * sizeof *decisions); }

static void decides_each(const char *dsn) {
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    const rl_batch_item items[] = {item("a", 3), item("b", 6), item("a", 3), item("", 1), {.cost = 1}, item("a", 2)};
    static const struct {
      bool allowed;
      uint64_t remaining;
    } expected[] = {{true, 2}, {false, 5}, {false, 2}, {true, 4}, {true, 3}, {true, 0}};
    rl_decision decisions[6];
    rl_status statuses[6];
    memset(statuses, 0x5A, sizeof statuses);
    CHECK_EQUAL(rl_allow_many(limiter, items, 6, decisions, statuses), RL_OK);
    for (size_t j = 0; j < 6; j++) {
      CHECK_EQUAL(statuses[j], RL_OK);
      CHECK_EQUAL(decisions[j].allowed, expected[j].allowed);
      CHECK_EQUAL(decisions[j].remaining, expected[j].remaining);
      CHECK_EQUAL(decisions[j].limit, 5);
      CHECK(!decisions[j].degraded);
    }
    CHECK(decisions[1].retry_after_us == RL_NEVER);
    /* What one verb has taken is taken for the others. */
    CHECK_EQUAL(remaining(limiter, "a"), 0);
    CHECK_EQUAL(remaining(limiter, "b"), 5);
    CHECK_EQUAL(rl_allow_many(limiter, items + 1, 1, decisions, NULL), RL_OK);
    CHECK(!decisions[0].allowed);
    rl_limiter_free(limiter);
  }
}

static void each_item_has_its_own_decision_in_order(void) {
  server redis = server_start();
  decides_each("memory:?max_keys=701");
  decides_each(dsn_of(&redis));
  server_end(&redis);
}

static void several_policies_are_charged_all_or_none_by_each_item(void) {
  static const named_policy policies[] = {{"burst", "2 burst, 1/h"}, {"daily", "3/2h log"}};
  server redis = server_start();
  const char *dsns[] = {"memory:?max_keys=702", dsn_of(&redis)};
  for (size_t i = 0; i < 2; i++) {
    rl_limiter *limiter = limiter_by(dsns[i], 2, policies, NULL);
    const rl_batch_item items[] = {item("a", 1), item("a", 3), item("a", 1), item("a", 1)};
    rl_decision decisions[4];
    CHECK_EQUAL(rl_allow_many(limiter, items, 4, decisions, NULL), RL_OK);
    CHECK(decisions[0].allowed && !decisions[1].allowed && decisions[2].allowed && !decisions[3].allowed);
    CHECK_EQUAL(decisions[3].policy, 0);
    CHECK_EQUAL(refund(limiter, "a", 2), RL_OK);
    CHECK_EQUAL(remaining(limiter, "a"), 2);
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

/* Answers nothing until all of a batch has been asked for. */
static void *answer_all_at_once(void *argument) {
  int connection = accept(*(int *)argument, NULL, NULL);
  if (asked_for(connection, 30)) {
    for (int i = 0; i < 30; i++) {
      answer(connection, ALLOWED_7_LEFT);
    }
  }
  close(connection);
  return NULL;
}

static void all_items_are_sent_before_an_answer_is_awaited(void) {
  int port, listener = listener_open(&port);
  pthread_t fake;
  CHECK(pthread_create(&fake, NULL, answer_all_at_once, &listener) == 0);
  rl_limiter *limiter = limiter_on(dsn_with_limit(port, 2), 10, 1, 60, NULL);
  rl_batch_item items[30];
  rl_decision decisions[30];
  for (int i = 0; i < 30; i++) {
    items[i] = item("busy", 1);
  }
  CHECK_EQUAL(rl_allow_many(limiter, items, 30, decisions, NULL), RL_OK);
  CHECK_EQUAL(decisions[29].remaining, 7);
  rl_limiter_free(limiter);
  CHECK(pthread_join(fake, NULL) == 0);
  close(listener);
}

/* Takes one unit of a key `ITEMS` times over and says whether it counted down from `from` without a gap. */
enum { ITEMS = 1200 };
static bool batch_counts_down(rl_limiter *limiter, const char *key, uint64_t from) {
  static rl_batch_item items[ITEMS];
  static rl_decision decisions[ITEMS];
  for (int i = 0; i < ITEMS; i++) {
    items[i] = item(key, 1);
  }
  bool unbroken = rl_allow_many(limiter, items, ITEMS, decisions, NULL) == RL_OK;
  for (uint64_t i = 0; unbroken && i < ITEMS; i++) {
    unbroken = decisions[i].allowed && decisions[i].remaining == from - i;
  }
  return unbroken;
}

static void a_large_batch_takes_one_connection_and_sends_the_script_once(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10000, 1, 3600, NULL);
  long connections = server_connections(&redis);
  CHECK(batch_counts_down(limiter, "busy", 9999));
  CHECK_EQUAL(server_calls(&redis, "eval"), 1);
  CHECK_BEGINS(server_command(&redis, "SCRIPT FLUSH"), "+OK");
  CHECK(batch_counts_down(limiter, "busy", 9999 - ITEMS));
  CHECK_EQUAL(server_calls(&redis, "eval"), 2);
  /* The batches' one, and those of this test's three questions since. */
  CHECK_EQUAL(server_connections(&redis) - connections, 1 + 4);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void after_fork_the_batches_of_all_processes_stay_apart(void) {
  enum { CHILDREN = 3 };
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10000, 1, 3600, NULL);
  CHECK(batch_counts_down(limiter, "parent", 9999));
  pid_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      char key[32];
      snprintf(key, sizeof key, "child %d", i);
      _exit(batch_counts_down(limiter, key, 9999) && batch_counts_down(limiter, key, 9999 - ITEMS) ? 0 : 1);
    }
    CHECK(children[i] > 0);
  }
  bool unbroken = batch_counts_down(limiter, "parent", 9999 - ITEMS);
  for (int i = 0; i < CHILDREN; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(unbroken);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_wrong_argument_is_named_with_its_index_before_redis_is_asked(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 5, 1, 3600, NULL);
  rl_decision decisions[3];
  rl_status statuses[3] = {RL_ERR_INTERNAL, RL_ERR_INTERNAL, RL_ERR_INTERNAL};
  const rl_batch_item good[] = {item("a", 5), item("b", 1), item("a", 1)};
  rl_batch_item items[3];
  fill(decisions, 3);
#define CHECK_REFUSED(change, sentence)                                                                            \
  (memcpy(items, good, sizeof good), change,                                                                       \
   CHECK_EQUAL(rl_allow_many(limiter, items, 3, decisions, statuses), RL_ERR_INVALID_ARGUMENT),                    \
   CHECK(strcmp(rl_last_error(), sentence) == 0))
  CHECK_REFUSED(items[0].cost = 0, "cost must be an integer between 1 and 2147483647, got 0, at index 0");
  CHECK_REFUSED(items[1].cost = -1, "cost must be an integer between 1 and 2147483647, got -1, at index 1");
  CHECK_REFUSED(items[2].cost = INT64_C(1) << 31,
                "cost must be an integer between 1 and 2147483647, got 2147483648, at index 2");
  CHECK_REFUSED(items[1].key = NULL, "key must not be NULL, at index 1");
  CHECK_REFUSED(items[2].key_len = (size_t)1 << 63,
                "key_len must be at most 9223372036854775807, got 9223372036854775808, at index 2");
#undef CHECK_REFUSED
#define CHECK_REFUSED(call, sentence) \
  (CHECK_EQUAL(call, RL_ERR_INVALID_ARGUMENT), CHECK_BEGINS(rl_last_error(), sentence))
  CHECK_REFUSED(rl_allow_many(NULL, good, 3, decisions, statuses), "limiter must not be NULL");
  CHECK_REFUSED(rl_allow_many(limiter, NULL, 3, decisions, statuses), "items must not be NULL");
  CHECK_REFUSED(rl_allow_many(limiter, good, 3, NULL, statuses), "out must not be NULL");
  CHECK_REFUSED(rl_allow_many(limiter, good, SIZE_MAX, decisions, statuses), "n must be at most ");
  CHECK_REFUSED(rl_allow_many(limiter, good, SIZE_MAX / 2 / sizeof *good, decisions, statuses), "n must be at most ");
#undef CHECK_REFUSED
  for (int i = 0; i < 3; i++) {
    CHECK(untouched(&decisions[i]));
    CHECK_EQUAL(statuses[i], RL_ERR_INTERNAL);
  }
  CHECK_EQUAL(rl_allow_many(limiter, NULL, 0, NULL, NULL), RL_OK);
  CHECK_EQUAL(server_decisions(&redis), 0);
  CHECK_EQUAL(rl_allow_many(limiter, good, 3, decisions, statuses), RL_OK);
  CHECK(decisions[0].allowed && decisions[1].allowed && !decisions[2].allowed);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void an_item_without_an_answer_leaves_the_others_theirs(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 5, 1, 3600, NULL);
  CHECK_BEGINS(server_command(&redis, "RPUSH rl:tb:default:{stranger} hello"), ":1");
  const rl_batch_item items[] = {item("a", 2), item("stranger", 1), item("a", 2), item("stranger", 1)};
  for (int with_statuses = 0; with_statuses < 2; with_statuses++) {
    rl_decision decisions[4];
    rl_status statuses[4] = {RL_ERR_INTERNAL, RL_OK, RL_ERR_INTERNAL, RL_OK};
    fill(decisions, 4);
    CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"a", 1), RL_OK);
    CHECK_EQUAL(rl_allow_many(limiter, items, 4, decisions, with_statuses ? statuses : NULL),
                RL_ERR_STORE_UNAVAILABLE);
    CHECK(strstr(rl_last_error(), "WRONGTYPE") != NULL);
    CHECK(strstr(rl_last_error(), "stranger") == NULL);
    CHECK_EQUAL(decisions[0].remaining, 3);
    CHECK_EQUAL(decisions[2].remaining, 1);
    CHECK(untouched(&decisions[1]) && untouched(&decisions[3]));
    for (int i = 0; with_statuses && i < 4; i++) {
      CHECK_EQUAL(statuses[i], i % 2 == 0 ? RL_OK : RL_ERR_STORE_UNAVAILABLE);
    }
  }
  rl_limiter_free(limiter);
  server_end(&redis);
}

/* Answers the first item of a batch of three, and the others when another caller has come: too late. */
static void *answer_in_part(void *argument) {
  int listener = *(int *)argument;
  int slow = accept(listener, NULL, NULL);
  if (asked_for(slow, 3)) {
    answer(slow, ALLOWED_7_LEFT);
    int fast = accept(listener, NULL, NULL);
    answer(slow, DENIED_0_LEFT);
    answer(slow, DENIED_0_LEFT);
    if (asked_for(fast, 3)) {
      for (int i = 0; i < 3; i++) {
        answer(fast, ALLOWED_7_LEFT);
      }
    }
    close(fast);
  }
  close(slow);
  return NULL;
}

static void late_answers_to_a_batch_are_never_taken_for_those_of_the_next(void) {
  int port, listener = listener_open(&port);
  pthread_t fake;
  CHECK(pthread_create(&fake, NULL, answer_in_part, &listener) == 0);
  double limit = check_quick() ? 2 : 0.2;
  rl_limiter *limiter = limiter_on(dsn_with_limit(port, limit), 10, 1, 60, NULL);
  const rl_batch_item items[] = {item("a", 1), item("b", 1), item("c", 1)};
  rl_decision decisions[3];
  rl_status statuses[3];
  fill(decisions, 3);
  double started = check_seconds();
  CHECK_EQUAL(rl_allow_many(limiter, items, 3, decisions, statuses), RL_ERR_STORE_UNAVAILABLE);
  CHECK(check_seconds() - started < 5 * limit);
  CHECK(strstr(rl_last_error(), "did not answer within") != NULL);
  /* The first one is decided and stays so. */
  CHECK_EQUAL(statuses[0], RL_OK);
  CHECK_EQUAL(decisions[0].remaining, 7);
  for (int i = 1; i < 3; i++) {
    CHECK_EQUAL(statuses[i], RL_ERR_STORE_UNAVAILABLE);
    CHECK(untouched(&decisions[i]));
  }
  CHECK_EQUAL(rl_allow_many(limiter, items, 3, decisions, statuses), RL_OK);
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(statuses[i], RL_OK);
    CHECK(decisions[i].allowed && decisions[i].remaining == 7);
  }
  rl_limiter_free(limiter);
  CHECK(pthread_join(fake, NULL) == 0);
  close(listener);
}

static void the_failure_rule_answers_for_each_item_of_a_silent_server(void) {
  int port, listener = listener_open(&port);
  static const struct {
    rl_on_error on_error;
    rl_status status;
    rl_source source;
    bool allowed[3];
  } rules[] = {
      {RL_ON_ERROR_THROW, RL_ERR_STORE_UNAVAILABLE, RL_SOURCE_STORE, {false, false, false}},
      {RL_ON_ERROR_OPEN, RL_OK, RL_SOURCE_FAIL_OPEN, {true, true, true}},
      {RL_ON_ERROR_CLOSED, RL_OK, RL_SOURCE_FAIL_CLOSED, {false, false, false}},
      /* Four units for two processes. */
      {RL_ON_ERROR_LOCAL, RL_OK, RL_SOURCE_LOCAL, {true, true, false}},
  };
  double limit = check_quick() ? 1 : 0.1;
  const rl_batch_item items[] = {item("silent batch", 1), item("silent batch", 1), item("silent batch", 1)};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    rl_limiter_options options = {.struct_size = sizeof options, .on_error = rules[i].on_error, .share = 2};
    rl_limiter *limiter = limiter_on(dsn_with_limit(port, limit), 4, 1, 3600, &options);
    rl_decision decisions[3];
    rl_status statuses[3];
    fill(decisions, 3);
    double started = check_seconds();
    CHECK_EQUAL(rl_allow_many(limiter, items, 3, decisions, statuses), rules[i].status);
    /* All of them together, not each, have the time limit. */
    CHECK(check_seconds() - started < 5 * limit);
    for (int j = 0; j < 3; j++) {
      CHECK_EQUAL(statuses[j], rules[i].status);
      if (rules[i].status == RL_OK) {
        CHECK(decisions[j].degraded);
        CHECK_EQUAL(decisions[j].source, rules[i].source);
        CHECK_EQUAL(decisions[j].allowed, rules[i].allowed[j]);
      } else {
        CHECK(untouched(&decisions[j]));
      }
    }
    rl_limiter_free(limiter);
  }
  close(listener);
}

void batch(void) {
  TEST(each_item_has_its_own_decision_in_order);
  TEST(several_policies_are_charged_all_or_none_by_each_item);
  TEST(all_items_are_sent_before_an_answer_is_awaited);
  TEST(a_large_batch_takes_one_connection_and_sends_the_script_once);
  TEST(after_fork_the_batches_of_all_processes_stay_apart);
  TEST(a_wrong_argument_is_named_with_its_index_before_redis_is_asked);
  TEST(an_item_without_an_answer_leaves_the_others_theirs);
  TEST(late_answers_to_a_batch_are_never_taken_for_those_of_the_next);
  TEST(the_failure_rule_answers_for_each_item_of_a_silent_server);
}
