#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A time limit in seconds that a good answer keeps, on this machine and under Valgrind. */
static double limit(void) { return check_quick() ? 2 : 0.2; }

/* One call, which must fail by the store within the time limit or soon after. */
static void check_unavailable_in_time(rl_limiter *limiter) {
  rl_decision untouched, decision;
  memset(&untouched, 0xA5, sizeof untouched);
  memcpy(&decision, &untouched, sizeof decision);
  double started = check_seconds();
  CHECK_EQUAL(allow(limiter, "caller", 1, &decision), RL_ERR_STORE_UNAVAILABLE);
  CHECK(check_seconds() - started < 5 * limit());
  CHECK(memcmp(&decision, &untouched, sizeof decision) == 0);
  CHECK(strstr(rl_last_error(), "redis at 127.0.0.1:") != NULL);
  CHECK(strstr(rl_last_error(), "caller") == NULL);
}

static void a_server_that_never_answers_fails_within_the_time_limit(void) {
  int port, listener = listener_open(&port);
  char dsn[64];
  snprintf(dsn, sizeof dsn, "redis://127.0.0.1:%d", port);
  rl_limiter *limiter = limiter_on(dsn, 5, 1, 60, NULL);
  double started = check_seconds();
  check_unavailable_in_time(limiter);
  CHECK(check_seconds() - started > 0.15);
  CHECK(strstr(rl_last_error(), "did not answer within 200ms") != NULL);
  CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"caller", 6), RL_ERR_STORE_UNAVAILABLE);
  rl_limiter_free(limiter);
  close(listener);
}

static void the_failure_rule_answers_for_a_silent_server(void) {
  int port, listener = listener_open(&port);
  static const struct {
    rl_on_error on_error;
    rl_source source;
    bool allowed[3];
    uint64_t remaining[3];
  } rules[] = {
      {RL_ON_ERROR_OPEN, RL_SOURCE_FAIL_OPEN, {true, true, true}, {0, 0, 0}},
      {RL_ON_ERROR_CLOSED, RL_SOURCE_FAIL_CLOSED, {false, false, false}, {0, 0, 0}},
      /* Four units for two processes. */
      {RL_ON_ERROR_LOCAL, RL_SOURCE_LOCAL, {true, true, false}, {1, 0, 0}},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    rl_limiter_options options = {.struct_size = sizeof options, .on_error = rules[i].on_error, .share = 2};
    rl_limiter *limiter = limiter_on(dsn_with_limit(port, 0.1), 4, 1, 3600, &options);
    for (int call = 0; call < 3; call++) {
      rl_decision decision;
      double started = check_seconds();
      CHECK_EQUAL(allow(limiter, "silent", 1, &decision), RL_OK);
      CHECK(check_seconds() - started < 5 * limit());
      CHECK_EQUAL(decision.allowed, rules[i].allowed[call]);
      CHECK_EQUAL(decision.remaining, rules[i].remaining[call]);
      CHECK_EQUAL(decision.source, rules[i].source);
      CHECK(decision.degraded);
      CHECK_EQUAL(decision.retry_after_us == 0, decision.allowed);
    }
    rl_limiter_free(limiter);
  }
  close(listener);
}

static void a_call_may_have_a_failure_rule_of_its_own(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(limiter, "own rule"), 9);
  server_stop(&redis);
  check_unavailable_in_time(limiter);
  static const rl_on_error rules[] = {RL_ON_ERROR_OPEN, RL_ON_ERROR_CLOSED, RL_ON_ERROR_LOCAL};
  static const rl_source sources[] = {RL_SOURCE_FAIL_OPEN, RL_SOURCE_FAIL_CLOSED, RL_SOURCE_LOCAL};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    rl_call call = call_of(RL_VERB_ALLOW, "own rule", 1);
    call.on_error = &rules[i];
    rl_decision decision;
    CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
    CHECK_EQUAL(decision.source, sources[i]);
    CHECK_EQUAL(decision.allowed, rules[i] != RL_ON_ERROR_CLOSED);
    CHECK(decision.degraded);
  }
  int none = 99;
  rl_call call = call_of(RL_VERB_ALLOW, "own rule", 1);
  memcpy(&call.on_error, &(void *){&none}, sizeof call.on_error);
  rl_decision decision;
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "on_error must be one of rl_on_error, got 99");
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_server_that_is_away_is_found_again(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 9);
  server_stop(&redis);
  check_unavailable_in_time(limiter);
  check_unavailable_in_time(limiter);
  CHECK(strstr(rl_last_error(), "cannot be connected to") != NULL);
  server_restart(&redis);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 9);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 8);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_restart_between_two_calls_is_not_noticed(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10, 1, 3600, NULL);
  for (int round = 0; round < 2; round++) {
    for (uint64_t remaining = 9; remaining >= 7; remaining--) {
      CHECK_EQUAL(remaining_after_one(limiter, "caller"), remaining);
    }
    server_restart(&redis);
  }
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void the_rule_answers_in_time_while_a_server_stands_still_and_not_after(void) {
  static const rl_on_error rules[] = {RL_ON_ERROR_OPEN, RL_ON_ERROR_CLOSED};
  static const rl_source sources[] = {RL_SOURCE_FAIL_OPEN, RL_SOURCE_FAIL_CLOSED};
  server redis = server_start();
  for (size_t i = 0; i < 2; i++) {
    rl_limiter_options options = {.struct_size = sizeof options, .on_error = rules[i]};
    rl_limiter *limiter = limiter_on(dsn_with_limit(redis.port, limit()), 1000, 1, 3600, &options);
    rl_decision decision;
    CHECK_EQUAL(allow(limiter, "caller", 1, &decision), RL_OK);
    CHECK_EQUAL(decision.source, RL_SOURCE_STORE);
    CHECK(kill(redis.process, SIGSTOP) == 0);
    for (int call = 0; call < 10; call++) {
      double started = check_seconds();
      CHECK_EQUAL(allow(limiter, "caller", 1, &decision), RL_OK);
      CHECK(check_seconds() - started < 5 * limit());
      CHECK_EQUAL(decision.source, sources[i]);
    }
    CHECK(kill(redis.process, SIGCONT) == 0);
    CHECK_BEGINS(server_command(&redis, "PING"), "+PONG");
    CHECK_EQUAL(allow(limiter, "caller", 1, &decision), RL_OK);
    for (int call = 0; call < 10; call++) {
      CHECK_EQUAL(allow(limiter, "caller", 1, &decision), RL_OK);
      CHECK_EQUAL(decision.source, RL_SOURCE_STORE);
    }
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

static void a_server_that_stands_still_is_given_up_and_found_again(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_with_limit(redis.port, limit()), 10, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 9);
  CHECK(kill(redis.process, SIGSTOP) == 0);
  check_unavailable_in_time(limiter);
  CHECK(kill(redis.process, SIGCONT) == 0);
  CHECK_BEGINS(server_command(&redis, "PING"), "+PONG");
  /* The call that timed out may have been counted. */
  uint64_t remaining = remaining_after_one(limiter, "caller");
  CHECK(remaining == 8 || remaining == 7);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), remaining - 1);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_flushed_script_costs_no_error_and_no_second_count(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 10, 1, 3600, NULL);
  for (uint64_t remaining = 9; remaining >= 4; remaining--) {
    if (remaining == 6) {
      CHECK_BEGINS(server_command(&redis, "SCRIPT FLUSH"), "+OK");
    }
    CHECK_EQUAL(remaining_after_one(limiter, "caller"), remaining);
  }
  /* The script was sent twice: to the fresh server, and after the flush. It was never loaded by itself. */
  CHECK_EQUAL(server_calls(&redis, "eval"), 2);
  CHECK_EQUAL(server_calls(&redis, "script|load"), 0);
  rl_limiter_free(limiter);
  server_end(&redis);
}

/* With an idempotency token a call that timed out may be sent again: it is counted once. */
static void a_call_that_timed_out_is_sent_again_under_its_token(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_with_limit(redis.port, limit()), 10, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 9);
  rl_call call = call_of(RL_VERB_ALLOW, "caller", 1);
  call.token = (const uint8_t *)"order 7";
  call.token_len = 7;
  rl_decision decision;
  CHECK(kill(redis.process, SIGSTOP) == 0);
  CHECK_EQUAL(decide(limiter, &call, &decision), RL_ERR_STORE_UNAVAILABLE);
  CHECK(kill(redis.process, SIGCONT) == 0);
  CHECK_BEGINS(server_command(&redis, "PING"), "+PONG");
  for (int i = 0; i < 2; i++) {
    CHECK_EQUAL(decide(limiter, &call, &decision), RL_OK);
    CHECK(decision.allowed);
    CHECK_EQUAL(decision.remaining, 8);
  }
  CHECK_EQUAL(remaining_after_one(limiter, "caller"), 7);
  rl_limiter_free(limiter);
  server_end(&redis);
}

enum { HITTERS = 10, HITS = 50 };

static void *hit(void *limiter) {
  for (int i = 0; i < HITS; i++) {
    rl_decision decision;
    if (allow(limiter, "flushed", 1, &decision) != RL_OK || !decision.allowed) {
      return (void *)"a call failed";
    }
  }
  return NULL;
}

static void scripts_flushed_under_load_lose_and_repeat_no_call(void) {
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 1000, 1, 3600, NULL);
  pthread_t threads[HITTERS];
  for (int i = 0; i < HITTERS; i++) {
    CHECK(pthread_create(&threads[i], NULL, hit, limiter) == 0);
  }
  for (int i = 0; i < 20; i++) {
    server_command(&redis, "SCRIPT FLUSH");
  }
  for (int i = 0; i < HITTERS; i++) {
    void *complaint;
    CHECK(pthread_join(threads[i], &complaint) == 0);
    CHECK(complaint == NULL);
  }
  CHECK_EQUAL(remaining_after_one(limiter, "flushed"), 1000 - HITTERS * HITS - 1);
  rl_limiter_free(limiter);
  server_end(&redis);
}

/* Commands that make something else of a key. */
static const char *const STRANGERS[] = {"SET %s hello", "SET %s \"\"", "RPUSH %s hello", "HSET %s text abc",
                                        "SADD %s hello"};

/* Calls limit + 5 times and says how many passed; what does not pass is denied or an error of the store. */
static int passed_of_ten(rl_limiter *limiter) {
  int passed = 0;
  for (int i = 0; i < 10; i++) {
    rl_decision decision;
    rl_status status = allow(limiter, "key", 1, &decision);
    CHECK(status == RL_OK || status == RL_ERR_STORE_UNAVAILABLE);
    passed += status == RL_OK && decision.allowed;
  }
  return passed;
}

static void what_else_is_stored_under_the_key_is_an_error_or_no_state(void) {
  server redis = server_start();
  /* What was refused a moment ago is refused without a look at the server; here the look is what counts. */
  char dsn[160];
  snprintf(dsn, sizeof dsn, "%s&deny_cache=0", dsn_of(&redis));
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    for (size_t j = 0; j < sizeof STRANGERS / sizeof *STRANGERS; j++) {
      CHECK_BEGINS(server_command(&redis, "FLUSHALL"), "+OK");
      CHECK_EQUAL(remaining_after_one(limiter, "key"), 4);
      /* The one key there is, as a line of its own. */
      char key[128], command[192];
      CHECK(sscanf(server_command(&redis, "RANDOMKEY"), "$%*d %127s", key) == 1);
      snprintf(command, sizeof command, "DEL %s", key);
      CHECK_BEGINS(server_command(&redis, command), ":1");
      snprintf(command, sizeof command, STRANGERS[j], key);
      CHECK(server_command(&redis, command)[0] != '-');
      CHECK(passed_of_ten(limiter) <= 5);
      CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"key", 3), RL_OK);
      CHECK_EQUAL(passed_of_ten(limiter), 5);
    }
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

static void every_algorithm_keeps_its_own_state_of_one_name_and_key(void) {
  server redis = server_start();
  rl_limiter *limiters[ALGORITHMS];
  for (size_t i = 0; i < ALGORITHMS; i++) {
    limiters[i] = limiter_by(dsn_of(&redis), 1, &(named_policy){"one name", five_of[i].text}, NULL);
  }
  /* Both forms of the token bucket, and both of the fixed window, are one algorithm with other numbers. */
  static const uint64_t left[ALGORITHMS] = {4, 3, 4, 4, 4, 3, 4, 4};
  for (size_t i = 0; i < ALGORITHMS; i++) {
    CHECK_EQUAL(remaining_after_one(limiters[i], "u1"), left[i]);
    rl_limiter_free(limiters[i]);
  }
  server_end(&redis);
}

/* Keeps its first caller waiting until the second has come, answers the first one first, and the second one twice. */
static void *answer_late(void *argument) {
  int listener = *(int *)argument;
  char command[4096];
  int slow = accept(listener, NULL, NULL);
  if (recv(slow, command, sizeof command, 0) > 0) {
    int fast = accept(listener, NULL, NULL);
    answer(slow, DENIED_0_LEFT);
    for (int i = 0; i < 2 && recv(fast, command, sizeof command, 0) > 0; i++) {
      answer(fast, ALLOWED_7_LEFT);
    }
    close(fast);
  }
  close(slow);
  return NULL;
}

static void a_late_answer_is_never_taken_for_the_next_one(void) {
  int port, listener = listener_open(&port);
  pthread_t fake;
  CHECK(pthread_create(&fake, NULL, answer_late, &listener) == 0);
  rl_limiter *limiter = limiter_on(dsn_with_limit(port, limit()), 10, 1, 60, NULL);
  rl_decision decision;
  CHECK_EQUAL(allow(limiter, "slow user", 1, &decision), RL_ERR_STORE_UNAVAILABLE);
  CHECK_EQUAL(remaining_after_one(limiter, "fast user"), 7);
  CHECK_EQUAL(remaining_after_one(limiter, "fast user"), 7);
  rl_limiter_free(limiter);
  CHECK(pthread_join(fake, NULL) == 0);
  close(listener);
}

/* Answers one command per connection and hangs up. */
static void *hang_up(void *argument) {
  int listener = *(int *)argument;
  char command[4096];
  for (int connection; (connection = accept(listener, NULL, NULL)) >= 0; close(connection)) {
    if (recv(connection, command, sizeof command, 0) > 0) {
      answer(connection, ALLOWED_7_LEFT);
    }
  }
  return NULL;
}

static void call_one_that_hangs_up(const char *dsn, int listener) {
  pthread_t fake;
  CHECK(pthread_create(&fake, NULL, hang_up, &listener) == 0);
  rl_limiter *limiter = limiter_on(dsn, 10, 1, 60, NULL);
  int answered = 0;
  for (int i = 0; i < 200; i++) {
    rl_decision decision;
    rl_status status = allow(limiter, "caller", 1, &decision);
    CHECK(status == RL_OK || status == RL_ERR_STORE_UNAVAILABLE);
    answered += status == RL_OK;
  }
  CHECK(answered >= 100);
  rl_limiter_free(limiter);
  shutdown(listener, SHUT_RDWR);
  CHECK(pthread_join(fake, NULL) == 0);
  close(listener);
}

/* The test program has SIGPIPE at its default, which would end it. */
static void a_server_that_hangs_up_sends_no_signal(void) {
  int port, listener = listener_open(&port);
  call_one_that_hangs_up(dsn_with_limit(port, 2), listener);

  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/tmp/ratelimit-test-%d.sock", (int)getpid());
  char dsn[192];
  snprintf(dsn, sizeof dsn, "redis+unix://%s?timeout=2", address.sun_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(listener, 16) == 0);
  call_one_that_hangs_up(dsn, listener);
  unlink(address.sun_path);
}

static void a_socket_in_the_file_system_leads_to_the_same_budget(void) {
  server redis = server_start();
  char dsn[160];
  snprintf(dsn, sizeof dsn, "redis+unix://%s?timeout=10", redis.socket);
  rl_limiter *unix_socket = limiter_on(dsn, 10, 1, 3600, NULL);
  rl_limiter *tcp = limiter_on(dsn_of(&redis), 10, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(unix_socket, "caller"), 9);
  CHECK_EQUAL(remaining_after_one(tcp, "caller"), 8);
  rl_limiter_free(unix_socket);
  rl_limiter_free(tcp);
  server_end(&redis);
}

void faults(void) {
  TEST(a_server_that_never_answers_fails_within_the_time_limit);
  TEST(the_failure_rule_answers_for_a_silent_server);
  TEST(a_call_may_have_a_failure_rule_of_its_own);
  TEST(a_server_that_is_away_is_found_again);
  TEST(a_restart_between_two_calls_is_not_noticed);
  TEST(the_rule_answers_in_time_while_a_server_stands_still_and_not_after);
  TEST(a_server_that_stands_still_is_given_up_and_found_again);
  TEST(a_call_that_timed_out_is_sent_again_under_its_token);
  TEST(a_flushed_script_costs_no_error_and_no_second_count);
  TEST(scripts_flushed_under_load_lose_and_repeat_no_call);
  TEST(what_else_is_stored_under_the_key_is_an_error_or_no_state);
  TEST(every_algorithm_keeps_its_own_state_of_one_name_and_key);
  TEST(a_late_answer_is_never_taken_for_the_next_one);
  TEST(a_server_that_hangs_up_sends_no_signal);
  TEST(a_socket_in_the_file_system_leads_to_the_same_budget);
}
